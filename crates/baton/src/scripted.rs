//! The built-in agent: it does what a file of steps says, and speaks to Baton like any other agent.
//!
//! It is for demonstrations, for tests and for trying settings out: it costs nothing, it does the
//! same every time, and it crashes and lies on demand. A run that is taken up again goes on after
//! its last checkpoint.

use std::path::{Component, Path};
use std::time::Duration;

use crate::adapters::Usage;
use crate::shape::Span;

mod act;

pub use crate::adapters::script::COMMAND;
pub use act::run;

/// What stands for the steps that are built in, in the place of a file.
pub const BUILT_IN: &str = "built-in";
/// The steps that are built in: they add one line to a file of their own, and say so.
const STEPS: &str = "\
say I am the agent that is built in: I add one line to BATON.md, and touch nothing else.
edit BATON.md An agent was here.
checkpoint The line is there
complete Added one line to BATON.md
";

/// Bytes of a file of steps.
pub const SCRIPT_BYTES_MAX: u64 = 256 * 1024;
/// Steps of a file.
const STEPS_MAX: usize = 1_000;
/// The longest that one step sleeps: a day is for ever to whoever waits.
const SLEEP_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// One thing that the agent does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Says something.
    Say(String),
    /// Adds a line to a file in its folder.
    Edit { path: String, line: String },
    /// Reads a file in its folder.
    Read(String),
    /// Runs a command; what it prints is no event.
    Run(String),
    /// Asks a person, and waits for the answer.
    Ask(String),
    /// Leaves a note, from where the next attempt goes on.
    Checkpoint(String),
    /// Does nothing for a while.
    Sleep(Duration),
    /// Uses tokens and money.
    Use(Usage),
    /// Runs into the limit of its account, which ends for this long.
    Limit(Duration),
    /// Breaks off: with this exit code, or by a signal that cannot be caught.
    Crash(Option<u8>),
    /// Prints that it is done in every way that it knows, and goes away without telling Baton.
    Lie(String),
    /// Says that it is done, and submits.
    Complete(String),
    /// Says that it cannot go on without a person.
    Block(String),
}

/// What is wrong with a file of steps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {rule}")]
pub struct Wrong {
    /// Where, counted from one.
    pub line: usize,
    /// What it must be.
    pub rule: String,
}

/// Every step, with what follows its word.
const WORDS: &str = "say TEXT, edit PATH LINE, read PATH, run COMMAND, ask TEXT, checkpoint TEXT, sleep 2s, \
                     use INPUT OUTPUT MICROS, limit 30s, crash [CODE], lie TEXT, complete TEXT or block TEXT";

/// Reads a file of steps: one per line, a word and what it is about. Empty lines and those that
/// begin with `#` are passed over.
pub fn parse(text: &str) -> Result<Vec<Step>, Wrong> {
    let mut steps = vec![];
    for (line, written) in (1..).zip(text.lines()) {
        let written = written.trim();
        if written.is_empty() || written.starts_with('#') {
            continue;
        }
        if steps.len() >= STEPS_MAX {
            return Err(Wrong { line, rule: format!("there are more than {STEPS_MAX} steps") });
        }
        steps.push(step(written).map_err(|rule| Wrong { line, rule })?);
    }
    Ok(steps)
}

fn step(written: &str) -> Result<Step, String> {
    let (word, rest) = written.split_once(char::is_whitespace).unwrap_or((written, ""));
    let rest = rest.trim();
    let needed = || match rest {
        "" => Err(format!("`{word}` must be followed by something: {WORDS}")),
        rest => Ok(rest.to_owned()),
    };
    Ok(match word {
        "say" => Step::Say(needed()?),
        "edit" => {
            let (path, line) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            Step::Edit { path: inside(path)?, line: line.trim().to_owned() }
        }
        "read" => Step::Read(inside(rest)?),
        "run" => Step::Run(needed()?),
        "ask" => Step::Ask(needed()?),
        "checkpoint" => Step::Checkpoint(needed()?),
        "sleep" => Step::Sleep(length(rest)?),
        "use" => Step::Use(used(rest)?),
        "limit" => Step::Limit(length(rest)?),
        "crash" => match rest {
            "" => Step::Crash(None),
            code => {
                let code = code.parse().map_err(|_| "`crash` takes an exit code up to 255")?;
                Step::Crash(Some(code))
            }
        },
        "lie" => Step::Lie(needed()?),
        "complete" => Step::Complete(needed()?),
        "block" => Step::Block(needed()?),
        other => return Err(format!("`{other}` is no step: {WORDS}")),
    })
}

/// A path that stays in the folder of the agent.
fn inside(path: &str) -> Result<String, String> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if path.is_empty() || !Path::new(path).components().all(plain) {
        return Err("the path must be a file in this folder, without `..`".to_owned());
    }
    Ok(path.to_owned())
}

fn length(text: &str) -> Result<Duration, String> {
    let span: Span = text.parse().map_err(|_| "a length of time is written like 2s or 5m")?;
    let length = Duration::from_millis(span.0.0);
    if length > SLEEP_MAX { Err("nothing takes longer than a day".to_owned()) } else { Ok(length) }
}

fn used(text: &str) -> Result<Usage, String> {
    let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    match numbers.as_deref() {
        Ok([input, output, cost_micros]) => {
            Ok(Usage { input: *input, output: *output, cached: 0, cost_micros: *cost_micros })
        }
        Ok(_) | Err(_) => Err("`use` takes three numbers: INPUT OUTPUT MICROS".to_owned()),
    }
}

#[cfg(test)]
mod tests;
