//! What the commits say that bring work onto the target branch: lines that a changelog can be made of.

use baton_domain::ids::TaskId;
use baton_domain::task::Kind;

use super::Car;

/// Characters of a subject: what most tools show of it.
const SUBJECT_CHARS_MAX: usize = 100;

/// The subject of a task's commit: its kind in the usual short words, its title, its number.
#[must_use]
pub fn subject(kind: Kind, title: &str, task: TaskId) -> String {
    let word = match kind {
        Kind::Story | Kind::Epic => "feat",
        Kind::Bug => "fix",
        Kind::Spike => "docs",
        Kind::Refactor => "refactor",
        Kind::Chore => "chore",
    };
    // A title that is written like a subject is one.
    let known =
        ["feat", "fix", "docs", "refactor", "chore", "test", "perf", "build", "ci", "style"];
    let is_subject = title.split_once(':').is_some_and(|(head, _)| {
        known.contains(&head.split('(').next().unwrap_or_default().trim_end_matches('!'))
    });
    let line = title.lines().next().unwrap_or_default().trim();
    let number = format!(" ({task})");
    let room = SUBJECT_CHARS_MAX - number.len();
    let whole = if is_subject { line.to_owned() } else { format!("{word}: {line}") };
    let shown: String = if whole.chars().count() > room {
        whole.chars().take(room - 1).chain(['…']).collect()
    } else {
        whole
    };
    format!("{shown}{number}")
}

/// All that a landing commit says of one car.
#[must_use]
pub fn landing(car: &Car) -> String {
    let (task, run) = (car.attempt.task, &car.run);
    format!("{}\n\nBaton-Task: {task}\nBaton-Run: {run}\n", car.subject)
}

/// The same of several that landed in one step.
pub(super) fn of_batch(cars: &[Car]) -> String {
    let names: Vec<_> = cars.iter().map(|car| car.attempt.task.to_string()).collect();
    let head = format!("merge: {} tasks ({})", cars.len(), names.join(", "));
    let lines: String = cars.iter().map(|car| format!("- {}\n", car.subject)).collect();
    let trailers: String =
        cars.iter().map(|car| format!("Baton-Task: {}\n", car.attempt.task)).collect();
    format!("{head}\n\n{lines}\n{trailers}")
}
