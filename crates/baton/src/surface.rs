//! The whole surface as text: `surface.txt` for reviewers, `openapi.json` for programs. Both are
//! read from the table of operations, so neither can say anything else than what is served.

mod openapi;
mod reference;
mod text;

pub use openapi::openapi;
pub use reference::{exit_codes, listing, problems};
pub use text::text;

use crate::operation::Method;

/// What the server answers besides the table.
pub const HANDWRITTEN: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/health",
        takes: None,
        kind: "text/plain",
        needs: Needs::Nothing,
        summary: "Whether the server is well, in one word",
    },
    Route {
        method: Method::Get,
        path: "/metrics",
        takes: None,
        kind: "text/plain",
        needs: Needs::Scope("health:read"),
        summary: "Figures in the Prometheus text format",
    },
    Route {
        method: Method::Put,
        path: "/v1/blobs/{sha256}",
        takes: Some("application/octet-stream"),
        kind: "application/json",
        needs: Needs::Scope("blob:write"),
        summary: "Take in bytes under their digest; the same ones again change nothing",
    },
    Route {
        method: Method::Get,
        path: "/v1/blobs/{sha256}",
        takes: None,
        kind: "application/octet-stream",
        needs: Needs::Scope("blob:read"),
        summary: "The bytes of this digest, checked while they are read",
    },
    Route {
        method: Method::Post,
        path: "/v1/tickets",
        takes: None,
        kind: "application/json",
        needs: Needs::Key,
        summary: "A URL that signs a browser in, once and within half a minute",
    },
    Route {
        method: Method::Get,
        path: "/v1/openapi.json",
        takes: None,
        kind: "application/json",
        needs: Needs::Key,
        summary: "This description",
    },
];

/// A path that the server answers itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// By which method.
    pub method: Method,
    /// Where.
    pub path: &'static str,
    /// The content type of the body, if it takes one.
    pub takes: Option<&'static str>,
    /// The content type of the answer.
    pub kind: &'static str,
    /// What a caller must show.
    pub needs: Needs,
    /// One sentence.
    pub summary: &'static str,
}

/// What a caller must show for a path that the server answers itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: whoever watches the server has no key.
    Nothing,
    /// Any key.
    Key,
    /// A key with this scope.
    Scope(&'static str),
}

impl Needs {
    fn words(self) -> &'static str {
        match self {
            Self::Nothing => "no key",
            Self::Key => "any key",
            Self::Scope(scope) => scope,
        }
    }
}

/// Commands that are written by hand, because they ask no server or run one: how they are typed, and
/// what for. Whoever adds one adds it here.
pub const COMMANDS: &[(&str, &str)] = &[
    ("board", "Show the live tasks by their stages"),
    ("logs", "Read what the agent of a task says"),
    ("diff", "Show what the work on a task changed"),
    ("merge", "Agree with what a task changed, so that it goes on to be merged"),
    ("take", "Take a task over: stop its agent, and open its folder in a shell"),
    ("cost", "Show what tasks have cost, and what budgets are left"),
    ("open", "Open the dashboard in a browser, signed in"),
    ("wait", "Wait until tasks are done, need a person, or have failed"),
    ("up", "Run server and worker in the background, and watch them"),
    ("down", "End what `up` started: the worker with its last agent, then the server"),
    ("serve", "Run the server in the foreground: see baton serve --help"),
    ("work", "Run agents in the foreground, for the server here or elsewhere"),
    ("init", "Set this repository up for the agent programs that are found, after asking"),
    ("prime", "Print what an agent must know here, in at most 60 lines"),
    ("mcp", "Speak MCP over stdio, for an agent program that starts it"),
    ("doctor", "Look for everything that can be wrong here, and say how to put it right"),
    ("backup", "Copy the database while it is in use; the copy is checked before it is named"),
    ("restore", "Bring a copy back; what is there is moved aside, claim tokens and keys die"),
    ("audit verify", "Walk every chain and every seal, and name the first thing that is wrong"),
    ("receipt export", "Print the signed receipt of a line, to keep it in a file"),
    ("receipt verify", "Check a receipt in a file, without a server; one changed byte fails"),
    ("contract check", "Say what baton.toml asks for, or what is wrong with it"),
    ("worktree list", "List the folders that agents work in on this machine"),
    ("worktree restore", "Bring the last snapshot of a task back into a new folder"),
    ("worktree prune", "Take away folders that no task needs; what no snapshot holds stays"),
    (
        "worktree release",
        "Lift a quarantine: you have looked, and nobody works in the folder any more",
    ),
    ("config show", "List every setting, its value and where it comes from"),
    ("uninstall", "Take back what Baton put here: what `init` wrote, and the data if you say so"),
    ("help", "Print the help of a command, or a page about a topic"),
    ("completions", "Print the completions of a shell"),
    ("demo", "Play a short story with a server of its own, and leave nothing behind"),
    ("bench", "Measure the store beside its limits, all in one run"),
];

/// Secrets that an answer may carry beside its record, shown once: record, field, sentence.
const SECRETS: &[(&str, &str, &str)] = &[
    ("ClaimedView", "claim_token", "Proves the attempt; shown once."),
    ("ClaimedView", "agent_token", "What the agent of a supervised attempt is given; shown once."),
    (
        "ChannelView",
        "secret",
        "What its signatures are checked with; shown once, when it is added.",
    ),
    ("KeyView", "key", "The key itself; shown once, when it is made or rotated."),
    ("TenantView", "key", "The first key of the tenant; shown once."),
];

fn secrets_of(record: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = SECRETS.iter().filter(move |(of, ..)| *of == record);
    own.map(|(_, field, doc)| (*field, *doc))
}

#[cfg(test)]
mod tests;
