//! Prints what every command does in every state, for a person to review.

mod columns;
mod rows;
mod verdicts;

use std::fmt::Write;

use baton_domain::refusal::Refusal;
use baton_domain::run::Finish;
use baton_domain::task::{Ending, Flow, Stage};
use expect_test::expect_file;

use self::columns::Path;
use self::rows::Row;

const LEGEND: &str = "\
What every command does in every state. `UPDATE_EXPECT=1 cargo test -p baton-domain` rewrites this.

  word    the state of the run afterwards; the same word as above: something was recorded
  >word   the task went on, or was put, into that column
  +word   a new run began in the same column
  =       nothing to do: no event, no write
  -word   refused, and nothing changed

  refusals  -lost lease_lost      -state wrong_state    -notyou not_for_you   -norun no_run
            -notdue not_due       -onhold on_hold       -waits dependency_open
            -approval approval_pending                  -person person_needed
            -version version_changed                    -hash contract_changed
            -found not_found      others by their code

  columns   b.*     blocked (input, capability with a condition, transient, dependency, limit);
            b.submit at a cap, with a submission; b.sticky came back too often; e.undone: an
            epic whose children ended otherwise than done; owed: completed under a hold; unproven: failed, and
            nobody proved its death; v.exited: verifying, the agent has exited; s.surviv: stopping,
            a survivor was seen; s.release, s.closing: stopping to be released, or closed; verifier,
            probe: held to verify or to probe; picked: working on a block that was picked up;
            f.*, r.*: frozen, in review; d.*: draft
";

/// Every row against every column.
fn grid(title: &str, paths: &[Path], groups: &[(&str, Vec<Row>)]) -> String {
    let mut lines = vec![];
    let heads: Vec<String> = paths.iter().map(|path| path.head.to_owned()).collect();
    for (group, rows) in groups {
        lines.push((format!("[{group}]"), vec![]));
        let told: Vec<Vec<String>> =
            rows.iter().map(|row| paths.iter().map(|path| cell(path, row)).collect()).collect();
        if told.windows(2).all(|pair| pair[0] == pair[1]) {
            lines.push(("  all of them".into(), told[0].clone()));
            continue;
        }
        let labels = rows.iter().map(|row| format!("  {}", row.label));
        lines.extend(labels.zip(told));
    }
    let mut text = format!("\n## {title}\n\n");
    aligned(&mut text, &heads, &lines, 9);
    text
}

fn aligned(text: &mut String, heads: &[String], lines: &[(String, Vec<String>)], width_min: usize) {
    let first = lines.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let width = |at: usize| {
        let cells = lines.iter().filter_map(|(_, cells)| cells.get(at));
        cells.chain(heads.get(at)).map(String::len).max().unwrap_or(0).max(width_min)
    };
    let mut print = |label: &str, cells: &[String]| {
        let mut line = format!("{label:first$}");
        for (at, cell) in cells.iter().enumerate() {
            write!(line, "  {cell:width$}", width = width(at)).expect("a string takes all");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    print("", heads);
    for (label, cells) in lines {
        print(label, cells);
    }
}

fn cell(path: &Path, row: &Row) -> String {
    let mut column = path.reach(row.lines);
    column.world.wait(row.later);
    let before = column.world.flow(column.id).clone();
    let command = (row.command)(&column);
    match column.world.tell(column.id, &command) {
        Err(refusal) => format!("-{}", short(&refusal)),
        Ok(decision) if decision.is_nothing() => "=".into(),
        Ok(_) => after(&before, column.world.flow(column.id)),
    }
}

fn short(refusal: &Refusal) -> &'static str {
    match refusal.code() {
        "lease_lost" => "lost",
        "wrong_state" => "state",
        "not_for_you" => "notyou",
        "no_run" => "norun",
        "not_due" => "notdue",
        "on_hold" => "onhold",
        "dependency_open" => "waits",
        "approval_pending" => "approval",
        "person_needed" => "person",
        "version_changed" => "version",
        "contract_changed" => "hash",
        "not_found" => "found",
        code => code,
    }
}

fn after(before: &Flow, flow: &Flow) -> String {
    if flow.stage != before.stage {
        return format!(">{}", place(&flow.stage));
    }
    let again = before.run.is_none() && flow.run.is_some();
    format!("{}{}", if again { "+" } else { "" }, word(flow))
}

fn place(stage: &Stage) -> String {
    match stage {
        Stage::Backlog => "backlog".into(),
        Stage::Working(name) => name.to_string(),
        Stage::Ended(Ending::Done { .. }) => "done".into(),
        Stage::Ended(_) => "closed".into(),
        Stage::Archived(_) => "archived".into(),
    }
}

/// The word for where a task stands.
fn word(flow: &Flow) -> String {
    if let Some(run) = &flow.run {
        return if run.word() == "waiting_input" { "waiting" } else { run.word() }.into();
    }
    let finish = flow.last.as_ref().map(|last| &last.finish);
    match (&flow.stage, finish) {
        (Stage::Working(_), Some(Finish::Completed)) => "completed".into(),
        (Stage::Working(_), Some(Finish::Failed { .. })) => "failed".into(),
        (Stage::Working(_), Some(Finish::Cancelled)) => "cancelled".into(),
        (stage, _) => place(stage),
    }
}

#[test]
fn every_command_against_every_state_is_as_reviewed() {
    let everybody = || {
        vec![
            ("person", rows::people()),
            ("claim", rows::claims()),
            ("agent", rows::agents()),
            ("supervisor, verifier", rows::supervisors()),
            ("time", rows::times()),
        ]
    };
    let mut text = LEGEND.to_owned();
    text += &grid("Nobody holds the run", &columns::idle(), &everybody());
    text += &grid("The run finished", &columns::finished(), &everybody());
    text += &grid("A worker holds the run", &columns::supervised(), &everybody());
    text += &grid("An agent without a worker holds the run", &columns::solo(), &everybody());
    text += &grid("Something holds the task up", &columns::held_up(), &everybody());
    text += &grid("On the board and off it", &columns::stages(), &everybody());
    text += &verdicts::table();
    expect_file!["../../lifecycle.txt"].assert_eq(&text);
}
