//! A second process to kill: the test binary once more, in a role of its own.
//!
//! A test that needs a process to kill asks first whether it is that process:
//!
//! ```no_run
//! use baton_testkit::child::{self, Child};
//!
//! # fn work(_: &str) {}
//! // #[test]
//! fn what_was_said_survives() {
//!     if let Some(arguments) = child::role("WRITER") {
//!         work(&arguments[0]);
//!         child::say("done");
//!         return;
//!     }
//!     let child = Child::spawn("tests::what_was_said_survives", "WRITER", &["folder"]);
//!     let end = child.kill_at(|line| line == "done");
//!     assert!(end.killed);
//! }
//! ```

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Names the role to the child.
const ROLE: &str = "BATON_TEST_ROLE";

/// Hands the arguments to the child; no argument may hold the separator.
const ARGUMENTS: &str = "BATON_TEST_ARGUMENTS";
const SEPARATOR: char = '\u{1f}';

/// Tells the lines of the child from those of the test harness around it.
const SAID: &str = "\u{1f}child: ";

/// How long a child may be silent before the test gives up on it.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// What the harness ends a process with that it was asked to kill.
const SIGKILL: i32 = 9;

/// A process that runs one test of this binary in a role. It is killed when dropped.
pub struct Child {
    process: std::process::Child,
    lines: Receiver<String>,
    heard: Vec<String>,
}

/// How a child ended.
#[derive(Clone, Debug)]
pub struct End {
    /// Every line that it said, those included that were read only after its end.
    pub lines: Vec<String>,
    /// Whether it was killed; false if it came to its end before.
    pub killed: bool,
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
}

/// Gives the arguments if this process is a child in the role `name`.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the environment is how a child learns its role")]
pub fn role(name: &str) -> Option<Vec<String>> {
    if std::env::var_os(ROLE)? != name {
        return None;
    }
    let arguments = std::env::var(ARGUMENTS).unwrap_or_default();
    if arguments.is_empty() {
        return Some(Vec::new());
    }
    Some(arguments.split(SEPARATOR).map(str::to_owned).collect())
}

/// Says one line to the parent. Once this returns, a kill takes the line back no more.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // One write for the whole line: two could be parted by a kill.
    let said = out.write_all(format!("{SAID}{line}\n").as_bytes()).and_then(|()| out.flush());
    said.expect("the parent listens for as long as the child lives");
}

impl Child {
    /// Starts the test `test`, named in full as the harness lists it, in the role `name`.
    #[must_use]
    pub fn spawn(test: &str, name: &str, arguments: &[&str]) -> Self {
        assert!(role(name).is_none(), "a child in the role {name} does not start another");
        let own = std::env::current_exe().expect("a running test has a binary");
        let mut process = Command::new(own)
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, name)
            .env(ARGUMENTS, arguments.join(&SEPARATOR.to_string()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test binary starts once more");
        let out = process.stdout.take().expect("the output was asked for");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                // The harness may have begun the line with words of its own.
                let Some((_, said)) = line.split_once(SAID) else { continue };
                if sender.send(said.to_owned()).is_err() {
                    break;
                }
            }
        });
        Self { process, lines, heard: Vec::new() }
    }

    /// The number by which the system knows the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits for the next line; none means that the child has ended.
    ///
    /// # Panics
    /// If the child is silent for a minute.
    pub fn line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(SILENCE_MAX) {
            Ok(line) => {
                self.heard.push(line.clone());
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the child said nothing for {SILENCE_MAX:?}"),
        }
    }

    /// Kills the child at the first line that `at` picks, or lets it end without one.
    #[must_use]
    pub fn kill_at(mut self, mut at: impl FnMut(&str) -> bool) -> End {
        while let Some(line) = self.line() {
            if at(&line) {
                return self.kill();
            }
        }
        self.wait()
    }

    /// Kills the child after a time, whatever it does then.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the moment of the kill is the point of it")]
    pub fn kill_after(self, time: Duration) -> End {
        std::thread::sleep(time);
        self.kill()
    }

    /// Kills the child now, with the signal that cannot be caught.
    #[must_use]
    pub fn kill(mut self) -> End {
        self.process.kill().expect("a child that is not reaped takes a signal");
        self.wait()
    }

    /// Waits for the end of the child and hears what it still had to say.
    #[must_use]
    pub fn wait(mut self) -> End {
        while self.line().is_some() {}
        let status = self.process.wait().expect("a child can be reaped");
        End {
            lines: std::mem::take(&mut self.heard),
            killed: status.signal() == Some(SIGKILL),
            code: status.code(),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It has ended already unless the test is failing; then nothing may outlive it.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[cfg(test)]
mod tests;
