//! What stands around every page: the way to the others, how things are, and who may script.

use maud::{DOCTYPE, Markup, html};
use serde::Deserialize;

use super::assets::path_of;
use super::paths::Screen;
use super::sheet::{self, Sheet};
use super::words::is_held;
use crate::problem::Problem;
use crate::views::{StatsView, TroubleView};

/// How pages look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// As the machine of the reader does.
    #[default]
    System,
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

impl Theme {
    /// What a cookie says.
    #[must_use]
    pub fn of(word: Option<&str>) -> Self {
        match word {
            Some("light") => Self::Light,
            Some("dark") => Self::Dark,
            Some(_) | None => Self::System,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// The pages of the rail: key, path, name, and its sign.
const PAGES: [(&str, &str, &str, &str); 4] = [
    ("i", "/inbox", "Inbox", "M4 13h4l2 3h4l2-3h4M5 6h14l1 7v5H4v-5z"),
    ("b", "/board", "Board", "M4 5h4v14H4zM10 5h4v9h-4zM16 5h4v12h-4z"),
    ("r", "/runs", "Runs", "M4 7h16M4 12h10M4 17h13"),
    (
        "a",
        "/agents",
        "Agents",
        "M12 3v3M7 8h10v9a3 3 0 0 1-3 3h-4a3 3 0 0 1-3-3zM10 12v1M14 12v1M4 12v3M20 12v3",
    ),
];

/// A whole page.
#[must_use]
pub fn page(screen: &Screen, sheet: &Sheet, theme: Theme) -> Markup {
    let body = html! {
        a.skip href="#main" { "Skip to content" }
        (rail(screen, sheet))
        div.stage {
            header.top {
                h1 { (sheet.title) }
                (sheet::chips(&sheet.chips))
                (search(screen))
                (tools(screen))
            }
            (sheet::main(&sheet.main()))
            footer.hints {
                span #live data-url=(screen.live()) role="status" { "" }
                span.keys { (hints(screen)) }
            }
        }
        div #toasts role="status" aria-live="polite" {}
        (palette())
        @if let Screen::Board(_) | Screen::Runs(_) = screen { (super::forms::bulk(sheet)) }
        @if let Screen::Board(_) = screen { (super::forms::adding(sheet)) }
    };
    document(&format!("{} · Baton", sheet.title), theme, "app", &body)
}

/// The keys that matter here.
fn hints(screen: &Screen) -> Markup {
    let here: &[(&str, &str)] = match screen {
        Screen::Inbox(_) => &[("j k", "move"), ("↵", "open"), ("a", "answer")],
        Screen::Board(_) => &[
            ("h j k l", "move"),
            ("↵", "open"),
            ("x", "choose"),
            ("H L", "change stage"),
            ("c", "new"),
        ],
        Screen::Runs(_) => &[("j k", "move"), ("↵", "open"), ("x", "choose")],
        Screen::Agents | Screen::Task(..) => &[("y", "copy the link"), ("p", "hold")],
    };
    html! {
        @for (key, means) in here.iter().chain(&[("/", "filter"), ("⌘K", "commands"), ("?", "all keys")]) {
            span { @for key in key.split(' ') { kbd { (key) } } (means) }
        }
    }
}

fn tools(screen: &Screen) -> Markup {
    html! {
        button #theme .icon type="button" aria-label="Light or dark" { (sign(MOON)) }
        @if let Screen::Board(_) = screen {
            button #new .primary type="button" aria-label="New task" { (sign(PLUS)) span { "New task" } }
        }
    }
}

/// How Baton is, as far as every page says it.
#[derive(Deserialize)]
pub struct Health {
    green: bool,
    troubles: Vec<TroubleView>,
    version: String,
}

/// How Baton is, at the foot of the rail.
#[must_use]
pub fn health(health: &Health, stats: &StatsView) -> Markup {
    let busy: u64 = stats.runs.iter().filter(|(state, _)| is_held(**state)).map(|(_, n)| n).sum();
    html! {
        @if health.green {
            p { span.lamp.good aria-hidden="true" {} b { "Healthy" } }
        } @else {
            p { span.lamp.bad aria-hidden="true" {} b { "Not well" } }
            @for trouble in &health.troubles {
                p { (trouble.detail) }
                p { code { (trouble.next) } }
            }
        }
        p.quiet { (busy) " at work · " (stats.claims_waiting) " waiting for work" }
        p.quiet { "Baton " (health.version) }
    }
}

const PLUS: &str = "M12 5v14M5 12h14";
/// A sun and a moon in one.
const MOON: &str = "M20 14.5A8 8 0 0 1 9.5 4a8 8 0 1 0 10.5 10.5z";

fn rail(screen: &Screen, sheet: &Sheet) -> Markup {
    let here = match screen {
        Screen::Inbox(_) => "/inbox",
        Screen::Board(_) => "/board",
        Screen::Runs(_) | Screen::Task(..) => "/runs",
        Screen::Agents => "/agents",
    };
    html! {
        nav.rail aria-label="Pages" {
            a.brand href="/" { (mark()) "Baton" }
            ul {
                @for (key, path, name, drawn) in PAGES {
                    li {
                        a href=(path) data-go=(key) aria-current=[(path == here).then_some("page")] {
                            (sign(drawn)) span { (name) }
                            @if name == "Inbox" { (sheet::count(sheet.inbox)) }
                        }
                    }
                }
            }
            div.foot {
                (sheet::health(&sheet.health))
                button #sign-out type="button" { "Sign out" }
            }
        }
    }
}

fn search(screen: &Screen) -> Markup {
    let (action, wish) = match screen {
        Screen::Board(wish) => ("/board", Some(wish)),
        Screen::Runs(wish) => ("/runs", Some(wish)),
        Screen::Inbox(_) | Screen::Agents | Screen::Task(..) => ("/runs", None),
    };
    let filter = wish.map(|wish| wish.filter.to_string()).unwrap_or_default();
    let project = wish.and_then(|wish| wish.project.as_ref());
    html! {
        form.search role="search" action=(action) method="get" {
            @if let Some(project) = project { input type="hidden" name="project" value=(project); }
            input #filter name="q" value=(filter) maxlength="256" autocomplete="off"
                placeholder="is:blocked stage:coding words…" aria-label="Filter";
            kbd { "/" }
        }
    }
}

fn palette() -> Markup {
    html! {
        dialog #palette aria-label="Commands" {
            input #palette-words type="text" autocomplete="off" aria-label="Command or task"
                placeholder="Go to, or T-128…" role="combobox" aria-expanded="true"
                aria-controls="palette-list";
            ul #palette-list role="listbox" aria-label="Commands" {}
            p.tail { span { kbd { "↑" } kbd { "↓" } "move" } span { kbd { "↵" } "run" } span { kbd { "esc" } "close" } }
        }
        dialog #keys aria-label="Keys" {
            h2 { "Keys" }
            dl {
                @for (key, means) in KEYS { div { dt { kbd { (key) } } dd { (means) } } }
            }
        }
    }
}

/// What keys mean, on every page.
const KEYS: [(&str, &str); 17] = [
    ("g i", "Inbox"),
    ("g b", "Board"),
    ("g r", "Runs"),
    ("g a", "Agents"),
    ("j / k", "Next and previous"),
    ("h / l", "Column to the left and to the right"),
    ("↵", "Open"),
    ("a", "Answer"),
    ("x", "Choose, or let go"),
    ("⇧H / ⇧L", "To the stage before, and after"),
    ("c", "New task"),
    ("/", "Filter"),
    ("p", "Hold live updates"),
    ("y", "Copy the link"),
    ("t", "Light or dark"),
    ("⌘K", "Commands"),
    ("esc", "Let go of everything"),
];

/// Where people come in.
#[must_use]
pub fn sign_in(theme: Theme) -> Markup {
    let body = html! {
        main #main .sign-in {
            h1 { (mark()) "Baton" }
            p { "On the machine of the server, this command signs you in:" }
            (super::words::command("baton open"))
            form #sign-in method="post" action="/sign-in" {
                label for="secret" { "From elsewhere, a key of yours:" }
                input #secret name="secret" type="password" required autocomplete="off"
                    spellcheck="false" placeholder="batonk_…";
                button.primary type="submit" { "Sign in" }
            }
            p #sign-in-trouble role="alert" {}
            noscript { p { "Signing in needs JavaScript; everything after it can be read without." } }
        }
    };
    document("Sign in · Baton", theme, "alone", &body)
}

/// Why there is nothing to see.
#[must_use]
pub fn trouble(problem: &Problem, theme: Theme) -> Markup {
    let body = problem.body();
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let main = html! {
        main #main .sign-in {
            h1 { (text("title")) }
            p { (text("detail")) }
            p { a href="/" { "To the inbox" } }
        }
    };
    document(&format!("{} · Baton", text("title")), theme, "alone", &main)
}

fn document(title: &str, theme: Theme, class: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" data-theme=(theme.word()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" type="image/svg+xml" href=(path_of("icon.svg"));
                link rel="preload" href="/assets/inter.woff2" as="font" type="font/woff2"
                    crossorigin;
                link rel="stylesheet" href=(path_of("base.css"));
                link rel="stylesheet" href=(path_of("pages.css"));
                script src=(path_of("idiomorph.js")) defer {}
                script src=(path_of("app.js")) defer {}
                script src=(path_of("board.js")) defer {}
                script src=(path_of("logs.js")) defer {}
            }
            body class=(class) { (body) }
        }
    }
}

/// The mark of the house: a hand-over.
fn mark() -> Markup {
    html! {
        svg.mark viewBox="0 0 24 24" aria-hidden="true" {
            rect x="1" y="1" width="22" height="22" rx="6" {}
            path d="M6 8.5h9M6 12h12M9 15.5h9" {}
        }
    }
}

/// A sign of lines.
fn sign(path: &str) -> Markup {
    html! { svg.sign viewBox="0 0 24 24" aria-hidden="true" { path d=(path) {} } }
}
