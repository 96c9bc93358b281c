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
    /// A member of a JSON file: below these objects, under this key, or the first of a list.
    Member {
        /// From the outside in.
        path: &'static [&'static str],
        /// None in a list.
        key: Option<&'static str>,
        /// What it is.
        value: Value,
    },
}

impl Piece {
    /// A digest of what it says, wherever it stands.
    #[must_use]
    pub fn meaning(&self) -> String {
        match &self.form {
            Form::Whole(text) | Form::Html(text) | Form::Hash(text) => digest(text),
            Form::Member { path, key, value } => digest(&format!("{path:?} {key:?} {value}")),
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

/// Everything for a project of this name and these agent programs.
#[must_use]
pub fn pieces(project: &str, agents: &[Agent]) -> Vec<Piece> {
    let mut pieces = vec![Piece {
        path: PROJECT_FILE,
        what: "what the project is called",
        form: Form::Hash(format!("[project]\nname = \"{project}\"\n")),
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

fn of(agent: Agent) -> Vec<Piece> {
    let server = json!({ "command": "baton", "args": ["mcp"] });
    let member = |path, key, value| Form::Member { path, key, value };
    match agent {
        Agent::Claude => vec![
            Piece {
                path: ".mcp.json",
                what: "baton's tools for claude",
                form: member(&["mcpServers"], Some("baton"), server),
            },
            Piece {
                path: ".claude/settings.json",
                what: "baton prime when claude starts, resumes or has compacted",
                form: member(
                    &["hooks", "SessionStart"],
                    None,
                    json!({ "hooks": [{ "type": "command", "command": "baton prime", "timeout": 10 }] }),
                ),
            },
            Piece {
                path: ".claude/skills/baton/SKILL.md",
                what: "how to work with baton, read by claude and opencode",
                form: Form::Whole(SKILL.to_owned()),
            },
        ],
        Agent::Codex => vec![Piece {
            path: ".codex/config.toml",
            what: "baton's tools for codex, once it trusts this folder",
            form: Form::Hash(
                "[mcp_servers.baton]\ncommand = \"baton\"\nargs = [\"mcp\"]\n\
                 default_tools_approval_mode = \"approve\"\ntool_timeout_sec = 60\n"
                    .to_owned(),
            ),
        }],
        Agent::Gemini => vec![Piece {
            path: ".gemini/settings.json",
            what: "baton's tools for gemini",
            form: member(&["mcpServers"], Some("baton"), server),
        }],
        Agent::Opencode => vec![Piece {
            path: "opencode.json",
            what: "baton's tools for opencode",
            form: member(
                &["mcp"],
                Some("baton"),
                json!({ "type": "local", "command": ["baton", "mcp"], "enabled": true }),
            ),
        }],
    }
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
