//! What is put into a repository, file by file.

use serde_json::{Value, json};

use super::Agent;
use super::record::digest;

/// What Baton knows of a project.
pub const PROJECT_FILE: &str = "baton.toml";

/// One piece of text for one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// The file, relative to the root.
    pub path: &'static str,
    /// What it is for, in a few words.
    pub what: &'static str,
    /// What is put there.
    pub form: Form,
}

/// How a piece stands in its file.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// It is the whole file.
    Whole(String),
    /// A marked block of a page.
    Html(String),
    /// A marked block of a file with comments like `# this`.
    Hash(String),
    /// Members of a JSON file.
    Members(Vec<Member>),
}

/// A member of a JSON file: below these objects, under this key, or the first of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// From the outside in.
    pub path: &'static [&'static str],
    /// None in a list.
    pub key: Option<&'static str>,
    /// What it is.
    pub value: Value,
}

impl Member {
    fn named(path: &'static [&'static str], value: Value) -> Self {
        Self { path, key: Some("baton"), value }
    }

    fn first(path: &'static [&'static str], value: Value) -> Self {
        Self { path, key: None, value }
    }

    fn meaning(&self) -> String {
        let Self { path, key, value } = self;
        format!("{path:?} {key:?} {value}")
    }
}

impl Piece {
    /// A digest of what it says, wherever it stands.
    #[must_use]
    pub fn meaning(&self) -> String {
        match &self.form {
            Form::Whole(text) | Form::Html(text) | Form::Hash(text) => digest(text),
            Form::Members(members) => {
                let all: Vec<_> = members.iter().map(Member::meaning).collect();
                digest(&all.join("\n"))
            }
        }
    }
}

/// At most ten lines with their marks: every agent reads them in every conversation.
const AGENTS_BLOCK: &str = "\
## Work is tracked by Baton

Run `baton prime` first: it says what your task is, what was done before and what \"done\" means.
With the `baton` MCP tools: `run_claim` or `run_start`, then `run_checkpoint` early and often.
Stuck? `run_ask` a person, or `run_block` and stop. Done? `run_complete`; a refusal lists what is missing.
Without MCP the same words are commands: `baton claim`, `baton checkpoint`, `baton ask`, `baton complete`.
";

const SKILL: &str = include_str!("skill.md");

/// What tasks of a repository pass, and how their work lands. A person agrees first, unless that is changed.
const PIPELINE: &str = "
[pipeline]
stages = [\"coding\", \"qa\", \"merge\"]
merge = \"approve\"
";

/// Everything for a project of this name and these agent programs; a repository has a pipeline.
#[must_use]
pub fn pieces(project: &str, agents: &[Agent], git: bool) -> Vec<Piece> {
    let pipeline = if git { PIPELINE } else { "" };
    let mut pieces = vec![Piece {
        path: PROJECT_FILE,
        what: if git { "name and stages of the project" } else { "what the project is called" },
        form: Form::Hash(format!("[project]\nname = \"{project}\"\n{pipeline}")),
    }];
    if !agents.is_empty() {
        let form = Form::Html(AGENTS_BLOCK.to_owned());
        pieces.push(Piece { path: "AGENTS.md", what: "what every agent is told", form });
    }
    for agent in agents {
        pieces.extend(of(*agent));
    }
    pieces
}

/// What a hook of an agent program runs when a conversation starts.
const PRIME: &str = "baton prime --hook";
/// Seconds that it may take: an agent that starts must not wait for a server that is away.
const PRIME_SECONDS: u64 = 10;

/// Codex gives a server of tools only the variables that are named.
const CODEX: &str = r#"[mcp_servers.baton]
command = "baton"
args = ["mcp"]
env_vars = [
    "BATON_HOME", "BATON_URL", "BATON_SOCKET", "BATON_KEY", "BATON_KEY_FILE", "BATON_CLAIM_TOKEN", "BATON_PROJECT",
]
default_tools_approval_mode = "approve"
tool_timeout_sec = 60

[[hooks.SessionStart]]

[[hooks.SessionStart.hooks]]
type = "command"
command = "baton prime --hook"
timeout = 10
"#;

fn of(agent: Agent) -> Vec<Piece> {
    let server = json!({ "command": "baton", "args": ["mcp"] });
    match agent {
        Agent::Claude => vec![
            Piece {
                path: ".mcp.json",
                what: "baton's tools for claude",
                form: Form::Members(vec![Member::named(&["mcpServers"], server)]),
            },
            Piece {
                path: ".claude/settings.json",
                what: "baton prime when claude starts, resumes or has compacted",
                form: Form::Members(vec![hook(json!({ "timeout": PRIME_SECONDS }))]),
            },
            Piece {
                path: ".claude/skills/baton/SKILL.md",
                what: "how to work with baton, read by claude and opencode",
                form: Form::Whole(SKILL.to_owned()),
            },
        ],
        Agent::Codex => vec![Piece {
            path: ".codex/config.toml",
            what: "baton's tools for codex and baton prime when it starts, once it trusts both",
            form: Form::Hash(CODEX.to_owned()),
        }],
        Agent::Gemini => vec![Piece {
            path: ".gemini/settings.json",
            what: "baton's tools for gemini and baton prime when it starts, once it trusts this folder",
            form: Form::Members(vec![
                Member::named(&["mcpServers"], for_gemini(server)),
                // It counts in milliseconds, and shows hooks by their names.
                hook(json!({ "name": "baton", "timeout": PRIME_SECONDS * 1_000 })),
            ]),
        }],
        Agent::Opencode => vec![Piece {
            path: "opencode.json",
            what: "baton's tools for opencode",
            form: Form::Members(vec![Member::named(
                &["mcp"],
                json!({ "type": "local", "command": ["baton", "mcp"], "enabled": true }),
            )]),
        }],
    }
}

/// Gemini CLI keeps variables whose names speak of keys and tokens to itself, unless they are named.
fn for_gemini(mut server: Value) -> Value {
    for name in ["BATON_KEY", "BATON_KEY_FILE", "BATON_CLAIM_TOKEN"] {
        server["env"][name] = format!("${{{name}:-}}").into();
    }
    server
}

/// `baton prime` when a conversation starts, with what this agent program says of hooks.
fn hook(mut about: Value) -> Member {
    about["type"] = "command".into();
    about["command"] = PRIME.into();
    Member::first(&["hooks", "SessionStart"], json!({ "hooks": [about] }))
}

/// The name of the project in the text of its file: `name = "…"` below `[project]`, as `init` writes it.
#[must_use]
pub fn project_name(text: &str) -> Option<String> {
    let lines = text.lines().map(str::trim);
    let mut inside = lines.skip_while(|line| *line != "[project]").skip(1);
    let line = inside.by_ref().take_while(|line| !line.starts_with('[')).find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == "name").then_some(value)
    })?;
    let value = line.split('#').next()?.trim();
    value.strip_prefix('"')?.strip_suffix('"').map(str::to_owned)
}
