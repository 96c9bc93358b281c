//! What somebody does who has the files, and what somebody says who wants to be in the log.

use std::path::Path;
use std::process::Command;

use baton_testkit::tables;
use serde_json::{Value, json};

use crate::program::{Program, Road};
use crate::scene::{ADA, Stage as _, entry};

/// Changes of the file, and the position that the audit must name.
const CHANGES: [(&str, u64); 5] = [
    ("UPDATE events SET payload = replace(payload, 'half of it', 'all of it')", 0),
    ("UPDATE events SET principal = 'somebody' WHERE tenant = 1 AND position = 1", 1),
    // The only entry of its tenant.
    ("DELETE FROM events WHERE tenant = 1 AND position = 1", 0),
    ("DELETE FROM events WHERE tenant = 2 AND position = 3", 3),
    ("DELETE FROM checkpoints", 0),
];

/// Everything that guards history in the database itself.
const GUARDS: [&str; 5] = [
    "events_are_final",
    "events_are_kept",
    "checkpoints_are_final",
    "checkpoints_are_kept",
    "runs_are_kept",
];

fn audit(data: &Path) -> (Option<i32>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command.args(["audit", "verify", "--json", "--data"]).arg(data).env_clear();
    let output = command.output().expect("it ends");
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default())
}

#[tokio::test]
async fn a_file_that_was_changed_fails_the_audit_and_the_place_is_named() {
    let program = Program::start();
    program.house().await;
    let folder = program.close();
    let data = folder.path().join("data");
    let (code, whole) = audit(&data);
    assert_eq!(code, Some(0), "{whole}");
    // Whoever closes the file last puts its log into it.
    tables::change(&data.join("baton.db"), "DROP TABLE IF EXISTS nowhere");
    let good = std::fs::read(data.join("baton.db")).expect("it is ours");
    for (change, position) in CHANGES {
        std::fs::write(data.join("baton.db"), &good).expect("there is room");
        for guard in GUARDS {
            tables::change(&data.join("baton.db"), &format!("DROP TRIGGER {guard}"));
        }
        assert!(tables::change(&data.join("baton.db"), change) > 0, "{change} changes something");
        let (code, told) = audit(&data);
        assert_eq!(code, Some(1), "{change}: {told}");
        let named = told["fault"]["position"].as_u64();
        assert!(named.is_some_and(|named| position == 0 || named == position), "{change}: {told}");
    }
}

#[tokio::test]
async fn whatever_is_said_a_line_of_the_log_is_one_line_of_json() {
    let program = Program::start_logging("json,trace");
    let house = program.house().await;
    let forged = "x\n{\"level\":\"ERROR\",\"fields\":{\"message\":\"forged\"}}\n";
    for title in [forged, "a\r\nb", "\u{1b}[2J"] {
        let task = json!({ "project": "shop", "title": title, "body": title });
        for road in [Road::Tcp, Road::Socket, Road::Typed] {
            house.ask(road, &ADA, entry("task create"), &task).await;
        }
        let missing = json!({ "project": title });
        house.ask(Road::Tcp, &ADA, entry("project show"), &missing).await;
        house.ask(Road::Tcp, &ADA, entry("task list"), &missing).await;
    }
    house.done(&ADA, "task list", json!({})).await;
    let folder = program.close();
    let log = std::fs::read_to_string(folder.path().join("log")).expect("it is written");
    assert!(log.lines().count() > 40, "it says something: {log}");
    for line in log.lines() {
        let told: Result<Value, _> = serde_json::from_str(line);
        let told = told.unwrap_or_else(|_| panic!("no line of JSON: {line}"));
        assert!(told["timestamp"].is_string() && told["target"].is_string(), "{line}");
        assert_ne!(told["fields"]["message"], "forged", "{line}");
    }
}
