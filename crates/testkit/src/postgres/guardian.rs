//! The process that keeps a cluster: it outlives whoever started it, by as long as it takes to take
//! everything away again. So nothing is left behind, even by a test that was killed.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::programs::Programs;

const SCRIPT: &str = include_str!("guardian.sh");

/// The guardian of a cluster that one process has to itself. Dropped, it takes the cluster away.
pub(super) struct Guardian {
    process: Child,
    words: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Guardian {
    pub(super) fn watch(programs: &Programs, home: &Path, options: &str) -> Self {
        let (mut process, answers) = spawn(programs, home, options, None);
        let words = process.stdin.take();
        Self { process, words, answers }
    }

    /// Has something done: `start`, `crash` or `stop`. False if it could not be.
    pub(super) fn tell(&mut self, word: &str) -> bool {
        let words = self.words.as_mut().expect("it is told things until it is dropped");
        writeln!(words, "{word}").expect("the guardian listens");
        answer(&mut self.answers)
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.words.take());
        drop(self.process.wait());
    }
}

/// The guardian of a cluster that lives for as long as anybody holds the lock, and some seconds
/// more. It starts the cluster when the folder is marked as copied.
pub(super) struct Sharing(BufReader<ChildStdout>);

impl Sharing {
    pub(super) fn watch(programs: &Programs, home: &Path, options: &str, lock: File) -> Self {
        Self(spawn(programs, home, options, Some(lock)).1)
    }

    /// Waits for the start; false if it failed.
    pub(super) fn started(mut self) -> bool {
        answer(&mut self.0)
    }
}

fn answer(answers: &mut BufReader<ChildStdout>) -> bool {
    let mut line = String::new();
    answers.read_line(&mut line).expect("the guardian answers");
    line.trim_end() == "done"
}

fn spawn(
    programs: &Programs,
    home: &Path,
    options: &str,
    lock: Option<File>,
) -> (Child, BufReader<ChildStdout>) {
    let whose = if lock.is_some() { "shared" } else { "own" };
    let mut shell = programs.as_runner(Command::new("sh"));
    shell.args(["-c", SCRIPT, "guardian"]).arg(home).arg(&programs.folder).arg(options).arg(whose);
    shell.stdin(lock.map_or_else(Stdio::piped, Stdio::from));
    // Whoever ends the group of a test that took too long must not end its guardian.
    shell.stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut process = shell.spawn().expect("every machine has a shell");
    let out = process.stdout.take().expect("the output was asked for");
    (process, BufReader::new(out))
}
