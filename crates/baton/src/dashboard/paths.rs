//! Every state of the dashboard is a URL: which path and query mean which screen, and back.

use baton_domain::ids::{ProjectId, RunId, TaskId};

use crate::filter::Filter;

/// What somebody wants to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Screen {
    /// Everything that waits for a person; this task of it.
    Inbox(Option<TaskId>),
    /// Tasks by stage.
    Board(Wish),
    /// Tasks one below the other, live and ended.
    Runs(Wish),
    /// Who works, and under which limits.
    Agents,
    /// One task; this run of it; this part of it opened.
    Task(TaskId, Option<RunId>, Tab),
}

/// The parts of a task's page, of which one is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tab {
    /// What happened, in sentences.
    #[default]
    Activity,
    /// What the agent said.
    Logs,
    /// What it changed.
    Diff,
    /// What happened, as it is recorded.
    Events,
    /// What the next holder gets.
    Handoff,
}

impl Tab {
    /// All of them in their order.
    pub const ALL: [Self; 5] =
        [Self::Activity, Self::Logs, Self::Diff, Self::Events, Self::Handoff];

    /// Its word in a URL.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Activity => "activity",
            Self::Logs => "logs",
            Self::Diff => "diff",
            Self::Events => "events",
            Self::Handoff => "handoff",
        }
    }

    /// What people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Activity => "Activity",
            Self::Logs => "Logs",
            Self::Diff => "Diff",
            Self::Events => "Events",
            Self::Handoff => "Hand-off",
        }
    }

    fn read(word: Option<&str>) -> Self {
        let found = Self::ALL.into_iter().find(|tab| Some(tab.word()) == word);
        found.unwrap_or_default()
    }
}

/// Which tasks somebody wants to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Of this project.
    pub project: Option<ProjectId>,
    /// Those that pass.
    pub filter: Filter,
    /// After this one.
    pub after: Option<TaskId>,
}

impl Screen {
    /// The screen of a path and the pairs of its query; none if there is no such page.
    #[must_use]
    pub fn of(path: &str, query: &[(String, String)]) -> Option<Self> {
        let value = |name: &str| {
            let found = query.iter().find(|(own, value)| own == name && !value.is_empty());
            found.map(|(_, value)| value.as_str())
        };
        let wish = || Wish {
            project: value("project").and_then(|text| ProjectId::new(text).ok()),
            filter: Filter::read(value("q").unwrap_or_default()),
            after: value("after").and_then(|text| text.parse().ok()),
        };
        match path {
            "/" | "/inbox" => Some(Self::Inbox(value("task").and_then(|text| text.parse().ok()))),
            "/board" => Some(Self::Board(wish())),
            "/runs" => Some(Self::Runs(wish())),
            "/agents" => Some(Self::Agents),
            _ => {
                let tab = Tab::read(value("tab"));
                if let Some(task) = path.strip_prefix("/tasks/") {
                    return Some(Self::Task(task.parse().ok()?, None, tab));
                }
                let run: RunId = path.strip_prefix("/runs/")?.parse().ok()?;
                Some(Self::Task(run.task, Some(run), tab))
            }
        }
    }

    /// Where its live updates come from.
    #[must_use]
    pub fn live(&self) -> String {
        format!("/live{}", self.url())
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        match self {
            Self::Inbox(None) => "/inbox".into(),
            Self::Inbox(Some(task)) => format!("/inbox?task={task}"),
            Self::Board(wish) => format!("/board{}", wish.query()),
            Self::Runs(wish) => format!("/runs{}", wish.query()),
            Self::Agents => "/agents".into(),
            Self::Task(task, run, tab) => {
                let of = match run {
                    Some(run) => format!("/runs/{run}"),
                    None => format!("/tasks/{task}"),
                };
                if *tab == Tab::default() { of } else { format!("{of}?tab={}", tab.word()) }
            }
        }
    }
}

impl Wish {
    /// The same as a query.
    #[must_use]
    pub fn query(&self) -> String {
        let mut pairs = vec![];
        if let Some(project) = &self.project {
            pairs.push(format!("project={}", encoded(project.as_str())));
        }
        if !self.filter.is_empty() {
            pairs.push(format!("q={}", encoded(&self.filter.to_string())));
        }
        if let Some(after) = self.after {
            pairs.push(format!("after={after}"));
        }
        if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
    }
}

/// A text as it stands in a query.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
