//! The stage: types what the script says, and prints it with its answer.

use std::io::Write;
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use super::Failure;
use super::house::House;

/// Longer than the longest wait in the script.
const STEP_MAX: Duration = Duration::from_secs(60);

/// Everybody on the stage, by name.
pub(super) const ANA: Player = Player { place: 0, name: "ana" };
pub(super) const FOX: Player = Player { place: 1, name: "fox" };
pub(super) const OWL: Player = Player { place: 2, name: "owl" };

/// Somebody who types.
#[derive(Clone, Copy, Debug)]
pub(super) struct Player {
    place: usize,
    name: &'static str,
}

/// What somebody has in the environment.
#[derive(Clone, Debug, Default)]
struct Hand {
    key: Option<String>,
    token: Option<String>,
}

/// What a command said, and what it exited with.
struct Said {
    out: String,
    err: String,
    exit: Option<i32>,
}

/// The stage.
pub(super) struct Stage<'a> {
    house: &'a House,
    out: &'a mut (dyn Write + Send),
    hands: [Hand; 3],
}

impl<'a> Stage<'a> {
    pub(super) fn new(house: &'a House, out: &'a mut (dyn Write + Send)) -> Self {
        Self { house, out, hands: Default::default() }
    }

    pub(super) fn say(&mut self, line: &str) -> Result<(), Failure> {
        Ok(writeln!(self.out, "{line}")?)
    }

    pub(super) fn chapter(&mut self, title: &str) -> Result<(), Failure> {
        self.say(&format!("\n── {title} ──\n"))
    }

    /// Somebody sets a variable; everybody has the project.
    pub(super) fn sets(&mut self, player: Player, variable: &str) -> Result<(), Failure> {
        self.say(&format!("{}$ export {variable}\n", player.name))
    }

    /// Somebody makes a file.
    pub(super) fn makes(&mut self, player: Player, name: &str, text: &str) -> Result<(), Failure> {
        std::fs::write(self.house.folder().join(name), text)?;
        self.say(&format!("{}$ echo '{}' > {name}\n", player.name, text.trim_end()))
    }

    /// A command that must go well.
    pub(super) async fn types(&mut self, player: Player, words: &[&str]) -> Result<(), Failure> {
        self.refused(player, words, 0).await
    }

    /// A command that must end as the story needs it.
    pub(super) async fn refused(
        &mut self,
        player: Player,
        words: &[&str],
        wanted: i32,
    ) -> Result<(), Failure> {
        self.step(player, words, wanted).await.map(drop)
    }

    /// A claim; whoever claims shows the token from then on.
    pub(super) async fn claims(&mut self, player: Player, words: &[&str]) -> Result<(), Failure> {
        self.hands[player.place].token = None;
        let said = self.step(player, words, 0).await?;
        let token = field(&said.out, "claim_token", words)?;
        self.hands[player.place].token = Some(token);
        self.sets(player, "BATON_CLAIM_TOKEN=batonc_…")
    }

    /// A key for somebody, made by Ana.
    pub(super) async fn lets_in(&mut self, player: Player) -> Result<(), Failure> {
        let name = player.name;
        let words = ["key", "create", "--name", name, "--principal", name, "--scopes", "agent"];
        let said = self.step(ANA, &words, 0).await?;
        self.hands[player.place].key = Some(field(&said.out, "key", &words)?);
        self.sets(player, "BATON_KEY=batonk_…")
    }

    /// The version at which a run is; asked behind the scenes.
    pub(super) async fn version_of(&self, run: &str) -> Result<String, Failure> {
        let words = ["run", "show", run, "--json"];
        let said = self.ask(ANA, &words).await?;
        let body: Value = serde_json::from_str(&said.out).unwrap_or_default();
        let version = body["version"].as_u64().map(|version| version.to_string());
        version.ok_or_else(|| Failure::Answer { typed: typed(&words), field: "version" })
    }

    async fn step(&mut self, player: Player, words: &[&str], wanted: i32) -> Result<Said, Failure> {
        let typed = typed(words);
        self.say(&format!("{}$ {typed}", player.name))?;
        let said = self.ask(player, words).await?;
        for text in [&said.out, &said.err] {
            write!(self.out, "{}", veiled(text))?;
        }
        if let Some(exit) = said.exit.filter(|exit| *exit != 0) {
            self.say(&format!("[exit {exit}]"))?;
        }
        self.say("")?;
        if said.exit == Some(wanted) {
            Ok(said)
        } else {
            Err(Failure::Step { typed, exit: said.exit, wanted })
        }
    }

    async fn ask(&self, player: Player, words: &[&str]) -> Result<Said, Failure> {
        let Hand { key, token } = &self.hands[player.place];
        let mut command = self.house.command();
        command.args(words).env("BATON_PROJECT", "demo");
        for (name, value) in [("BATON_KEY", key), ("BATON_CLAIM_TOKEN", token)] {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        let late = || std::io::Error::new(std::io::ErrorKind::TimedOut, typed(words));
        let output = timeout(STEP_MAX, command.output()).await.map_err(|_| late())??;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Said {
            out: text(&output.stdout),
            err: text(&output.stderr),
            exit: output.status.code(),
        })
    }
}

/// The value beside a name in an answer.
fn field(answer: &str, name: &'static str, words: &[&str]) -> Result<String, Failure> {
    let mut pairs = answer.lines().filter_map(|line| line.split_once("  "));
    let found = pairs.find(|(own, _)| *own == name).map(|(_, value)| value.trim().to_owned());
    found.ok_or_else(|| Failure::Answer { typed: typed(words), field: name })
}

/// A command as a person would type it.
fn typed(words: &[&str]) -> String {
    let quoted = words.iter().map(|word| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:/=".contains(c);
        match word {
            _ if word.chars().all(plain) => format!(" {word}"),
            _ if word.contains('"') => format!(" '{word}'"),
            _ => format!(" \"{word}\""),
        }
    });
    format!("baton{}", quoted.collect::<String>())
}

/// A text without the secrets in it: a story is read aloud.
fn veiled(text: &str) -> String {
    let mut veiled = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("batonc_").or_else(|| rest.find("batonk_")) {
        let (before, secret) = rest.split_at(at);
        let (prefix, body) = secret.split_at("batonc_".len());
        let end = body.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(body.len());
        veiled.push_str(before);
        veiled.push_str(prefix);
        veiled.push('…');
        rest = &body[end..];
    }
    veiled.push_str(rest);
    veiled
}
