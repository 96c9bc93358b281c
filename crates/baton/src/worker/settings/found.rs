//! What is found on this machine without being told: programs, and what signs them in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::adapters::{Consent, Program};

use super::Agent;

/// Programs that are looked for, in the order in which they are taken.
const LOOKED_FOR: [Program; 4] =
    [Program::Claude, Program::Codex, Program::Gemini, Program::Opencode];

/// What this machine has.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Where programs are looked for.
    pub programs: Vec<PathBuf>,
    /// This program, which is the scripted agent, too.
    pub own: PathBuf,
    /// What the worker was started with.
    pub variables: BTreeMap<String, String>,
}

/// Where a program of this name is, by the folders of `PATH`.
#[must_use]
pub fn find(folders: &[PathBuf], name: &str) -> Option<PathBuf> {
    folders.iter().map(|folder| folder.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

impl Found {
    /// The agent that is there although nobody set one up.
    pub(super) fn agent(&self) -> Option<(String, Agent)> {
        let is_there = |program: &Program| find(&self.programs, program.word()).is_some();
        let program = LOOKED_FOR.into_iter().find(is_there)?;
        let agent = Agent {
            program,
            command: self.command(program)?,
            arguments: vec![],
            model: None,
            account: None,
            capabilities: std::collections::BTreeSet::new(),
            consent: Consent::Edits,
            env: self.keys(program),
            files: self.credentials(program),
        };
        Some((program.word().to_owned(), agent))
    }

    /// How a program is usually started.
    pub(super) fn command(&self, program: Program) -> Option<Vec<String>> {
        let word = match program {
            Program::Claude | Program::Codex | Program::Gemini | Program::Opencode => {
                program.word().to_owned()
            }
            Program::CodexExec => Program::Codex.word().to_owned(),
            Program::Script => self.own.to_str()?.to_owned(),
            Program::Command | Program::Acp => return None,
        };
        Some(vec![word])
    }

    /// The files that sign a program in, where they are: agents have a home of their own.
    pub(super) fn credentials(&self, program: Program) -> BTreeMap<String, PathBuf> {
        let names: &[&str] = match program {
            Program::Claude => &[".claude/.credentials.json"],
            Program::Codex | Program::CodexExec => &[".codex/auth.json"],
            Program::Gemini => &[".gemini/oauth_creds.json", ".gemini/google_accounts.json"],
            Program::Opencode => &[".local/share/opencode/auth.json"],
            Program::Command | Program::Acp | Program::Script => &[],
        };
        let Some(home) = self.variables.get("HOME").map(PathBuf::from) else {
            return BTreeMap::new();
        };
        let there = names.iter().map(|name| ((*name).to_owned(), home.join(name)));
        there.filter(|(_, source)| source.is_file()).collect()
    }

    /// The variables that sign a program in, as the worker has them.
    pub(super) fn keys(&self, program: Program) -> BTreeMap<String, String> {
        let names: &[&str] = match program {
            Program::Claude => {
                &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"]
            }
            Program::Codex | Program::CodexExec => &["OPENAI_API_KEY", "CODEX_API_KEY"],
            Program::Gemini => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
            Program::Opencode | Program::Command | Program::Acp | Program::Script => &[],
        };
        let set = |name: &&str| Some(((*name).to_owned(), self.variables.get(*name)?.clone()));
        names.iter().filter_map(set).collect()
    }

    /// A path as people write it.
    pub(super) fn expand(&self, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), self.variables.get("HOME")) {
            (Some(rest), Some(home)) => Path::new(home).join(rest),
            (Some(_), None) | (None, _) => PathBuf::from(path),
        }
    }
}
