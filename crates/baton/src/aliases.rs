//! Everyday commands: a closed list. Each is one operation with some arguments in other places and
//! its own columns; there is nothing that only an everyday command can do.

use crate::operation::Entry;
use crate::operations;

/// An everyday command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// What people type.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// The operation's noun.
    pub noun: &'static str,
    /// The operation's verb.
    pub verb: &'static str,
    /// Arguments that need no flag, in order.
    pub positionals: &'static [&'static str],
    /// Arguments that it gives by itself.
    pub fixed: &'static [(&'static str, &'static str)],
    /// What it shows first; the operation's own columns if there are none.
    pub columns: &'static [&'static str],
    /// What it takes besides the arguments of its operation.
    pub extra: Extra,
}

/// What an everyday command takes besides the arguments of its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// Nothing.
    Nothing,
    /// Words of the filter language, which the dashboard speaks, too.
    Filter,
    /// `--go`: begin at once, and tell how it goes.
    Go,
}

const fn alias(
    name: &'static str,
    (noun, verb): (&'static str, &'static str),
    positionals: &'static [&'static str],
    columns: &'static [&'static str],
    summary: &'static str,
) -> Alias {
    Alias { name, summary, noun, verb, positionals, fixed: &[], columns, extra: Extra::Nothing }
}

const TASKS: &[&str] = &["id", "badge", "stage", "priority", "title"];
const PAUSE: &[&str] = &["pool", "used", "paused"];

/// Every everyday command, in the order in which people need them.
pub const ALIASES: &[Alias] = &[
    Alias { extra: Extra::Go, ..alias("add", ("task", "create"), &["title"], TASKS, "Add a task") },
    Alias { extra: Extra::Filter, ..alias("ls", ("task", "list"), &[], TASKS, "List tasks") },
    alias("show", ("task", "show"), &["task"], TASKS, "Show a task, or a run like R-128.2"),
    alias("explain", ("task", "explain"), &["task"], &[], "Say why a task does not go on"),
    alias("inbox", ("inbox", "list"), &[], &[], "List what needs a person"),
    alias("answer", ("run", "answer"), &["run", "answer"], &[], "Answer the question of a run"),
    alias("unblock", ("run", "unblock"), &["run", "reason"], &[], "Let a parked run go on"),
    alias(
        "review",
        ("run", "review"),
        &["run", "verdict", "reason"],
        &[],
        "Approve or reject what a run submitted",
    ),
    alias("approve", ("task", "approve"), &["task"], TASKS, "Agree that a task may be worked on"),
    alias("reject", ("task", "reject"), &["task", "reason"], TASKS, "Refuse a task"),
    alias("retry", ("run", "retry"), &["run", "reason"], &[], "Try a finished run again"),
    alias("cancel", ("run", "cancel"), &["run", "reason"], &[], "Cancel a run"),
    Alias {
        fixed: &[("newest", "true")],
        ..alias("events", ("event", "list"), &[], &[], "List what happened, the last first")
    },
    alias("pause", ("scheduler", "pause"), &["reason"], PAUSE, "Let nothing new be claimed"),
    alias("resume", ("scheduler", "resume"), &[], PAUSE, "Let work be claimed again"),
    alias("claim", ("run", "claim"), &[], &[], "Take the next run that you may work on"),
    alias("beat", ("run", "heartbeat"), &[], &[], "Keep the lease of your run"),
    alias("checkpoint", ("run", "checkpoint"), &["summary"], &[], "Note how far your run is"),
    alias("ask", ("run", "ask"), &["question"], &[], "Ask a person, and stay for the answer"),
    alias("block", ("run", "block"), &["kind", "reason"], &[], "Park your run, and say why"),
    alias("complete", ("run", "complete"), &[], &[], "Say that your run is done; it is checked"),
    alias("fail", ("run", "fail"), &["code", "reason"], &[], "Say that your run has failed"),
    alias("release", ("run", "release"), &["reason"], &[], "Give your run back"),
];

impl Alias {
    /// The operation behind it.
    #[must_use]
    pub fn entry(&self) -> Option<&'static Entry> {
        operations::find(self.noun, self.verb)
    }
}

/// The everyday command of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Alias> {
    ALIASES.iter().find(|alias| alias.name == name)
}

/// Every everyday command as `surface.txt` lists it: how it is typed, and what it stands for.
#[must_use]
pub fn aliases() -> Vec<(String, String)> {
    let typed = |alias: &Alias| {
        let positionals = alias.positionals.iter().map(|name| format!(" <{name}>"));
        let stands_for = format!("{} {}", alias.noun, alias.verb);
        let extra = match alias.extra {
            Extra::Nothing => "",
            Extra::Filter => " [filter…]",
            Extra::Go => " [--go]",
        };
        (format!("{}{}{extra}", alias.name, positionals.collect::<String>()), stands_for)
    };
    ALIASES.iter().map(typed).collect()
}
