//! What stands in the middle of a page, and what of it changed since it was last sent.

use maud::{Markup, PreEscaped, html};

/// The middle of a page.
pub struct Sheet {
    /// What the window is called.
    pub title: String,
    /// What is said beside the title: counts, and what is wrong.
    pub chips: Markup,
    /// How many things wait for the reader.
    pub inbox: u64,
    /// How Baton is.
    pub health: Markup,
    /// The project that is looked at, and its working stages.
    pub project: Option<(String, Vec<String>)>,
    /// The pieces that change by themselves, in the order in which they stand.
    pieces: Vec<Piece>,
    /// Everything, with a mark where each piece stands.
    skeleton: String,
}

/// One part of a sheet that can be exchanged alone: its element has this id.
struct Piece {
    id: String,
    html: String,
}

/// What a reader must exchange to see a sheet as it is now: elements by their id.
#[derive(Debug, PartialEq, Eq, serde::Serialize)]
pub struct Patch {
    /// The id of the element.
    pub id: String,
    /// What it is now.
    pub html: String,
}

/// Stands in a skeleton where a piece belongs. No text on a page has this character: control
/// characters are refused wherever texts come in.
const MARK: char = '\u{1}';

impl Sheet {
    /// A sheet in which nothing changes by itself but all of it.
    #[must_use]
    pub fn whole(title: impl Into<String>, main: &Markup) -> Self {
        let skeleton = main.0.replace(MARK, "");
        let (chips, health, pieces) = (html! {}, html! {}, vec![]);
        Self { title: title.into(), chips, inbox: 0, health, project: None, pieces, skeleton }
    }

    /// What somebody has seen who has seen nothing.
    #[must_use]
    pub fn nothing() -> Self {
        let (chips, health, pieces, skeleton) = (html! {}, html! {}, vec![], String::new());
        Self {
            title: String::new(),
            chips,
            inbox: u64::MAX,
            health,
            project: None,
            pieces,
            skeleton,
        }
    }

    /// A sheet of pieces: `draw` puts each where `Pieces::put` says.
    #[must_use]
    pub fn of_pieces(title: impl Into<String>, draw: impl FnOnce(&mut Pieces) -> Markup) -> Self {
        let mut pieces = Pieces(vec![]);
        let skeleton = draw(&mut pieces).0;
        let (title, chips, health, pieces) = (title.into(), html! {}, html! {}, pieces.0);
        Self { title, chips, inbox: 0, health, project: None, pieces, skeleton }
    }

    /// Whether it shows what changes without an event: leases are renewed, and workers come and go, in silence.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        let timed = |html: &str| html.contains("data-lease") || html.contains("data-roster");
        timed(&self.skeleton) || self.pieces.iter().any(|piece| timed(&piece.html))
    }

    /// All of it.
    #[must_use]
    pub fn main(&self) -> Markup {
        let mut pieces = self.pieces.iter();
        let mut whole = String::with_capacity(self.skeleton.len());
        for (index, part) in self.skeleton.split(MARK).enumerate() {
            if index > 0 {
                whole.push_str(pieces.next().map_or("", |piece| &piece.html));
            }
            whole.push_str(part);
        }
        PreEscaped(whole)
    }

    /// What a reader of `before` must exchange. If anything but single pieces changed, that is
    /// everything: whoever moves from one column to another keeps its place in the reader's hands.
    #[must_use]
    pub fn since(&self, before: &Self) -> Vec<Patch> {
        let mut patches = vec![];
        let ids = |sheet: &Self| sheet.pieces.iter().map(|own| own.id.clone()).collect::<Vec<_>>();
        if self.skeleton != before.skeleton || ids(self) != ids(before) {
            patches.push(Patch { id: "main".into(), html: main(&self.main()).0 });
        } else {
            let changed = self.pieces.iter().zip(&before.pieces);
            let changed = changed.filter(|(now, then)| now.html != then.html);
            patches.extend(
                changed.map(|(now, _)| Patch { id: now.id.clone(), html: now.html.clone() }),
            );
        }
        if self.chips.0 != before.chips.0 {
            patches.push(Patch { id: "chips".into(), html: chips(&self.chips).0 });
        }
        if self.inbox != before.inbox {
            patches.push(Patch { id: "inbox-count".into(), html: count(self.inbox).0 });
        }
        if self.health.0 != before.health.0 {
            patches.push(Patch { id: "health".into(), html: health(&self.health).0 });
        }
        patches
    }
}

/// The pieces of a sheet that is being drawn.
pub struct Pieces(Vec<Piece>);

impl Pieces {
    /// Stands where a piece belongs.
    pub fn put(&mut self, id: String, html: Markup) -> Markup {
        self.0.push(Piece { id, html: html.0.replace(MARK, "") });
        PreEscaped(MARK.to_string())
    }
}

/// The element that a sheet stands in.
#[must_use]
pub fn main(inside: &Markup) -> Markup {
    html! { main id="main" tabindex="-1" { (inside) } }
}

/// The element that the chips stand in.
#[must_use]
pub fn chips(inside: &Markup) -> Markup {
    html! { div #chips .chips { (inside) } }
}

/// The element that says how Baton is.
#[must_use]
pub fn health(inside: &Markup) -> Markup {
    html! { div #health .health { (inside) } }
}

/// The number beside the word Inbox.
#[must_use]
pub fn count(inbox: u64) -> Markup {
    html! {
        span #inbox-count .count hidden[inbox == 0] {
            (inbox) span.sr { " waiting for you" }
        }
    }
}
