//! What a completion must show, and what a person's word in its place leaves behind.

use std::sync::Arc;
use std::time::SystemTime;

use baton_domain::time::Millis;
use baton_store::blobs::{Blobs, DirectoryBlobs, Put, Settings, Urgency};
use serde_json::{Value, json};

use super::code;
use super::desk::{Desk, Who, ann, bot, secret, worker};
use crate::engine::tests::world::tenant;
use crate::receipts::{Found, Signer, verify};

/// A desk beside which bytes are kept.
struct Office {
    desk: Desk,
    blobs: Arc<DirectoryBlobs>,
    _folder: tempfile::TempDir,
}

impl Office {
    async fn new() -> Self {
        let (desk, folder) = (Desk::new().await, tempfile::tempdir().expect("a folder"));
        let path = folder.path().join("blobs");
        let free = Box::new(|| Ok(u64::MAX));
        let (blobs, _) = DirectoryBlobs::open(&path, Settings::default(), free).expect("a place");
        let blobs = Arc::new(blobs);
        desk.world.engine.keep_blobs(blobs.clone());
        Self { desk, blobs, _folder: folder }
    }

    /// Hands bytes in; the artifact that they are, under this path.
    fn hand_in(&self, path: &str, bytes: &str) -> Value {
        let put = Put {
            expected: None,
            size_max: 1 << 20,
            urgency: Urgency::Ending,
            now: SystemTime::UNIX_EPOCH,
        };
        let stored = self.blobs.put(tenant().as_str(), &mut bytes.as_bytes(), &put);
        let stored = stored.expect("there is room");
        json!({ "path": path, "digest": stored.digest.to_string(), "bytes": stored.size })
    }

    /// Somebody who holds a run of a task with this contract.
    async fn holder(&self, name: &'static str, contract: Value) -> Who {
        let goal = json!({ "title": "report", "contract": contract });
        let started = self.desk.ask(&bot(name), "run start", goal).await.expect("it may");
        bot(name).showing(&secret(&started, "claim_token"))
    }

    /// The codes that a completion is refused with; it changes nothing, the lease included.
    async fn codes(&self, who: &Who, more: Value) -> Vec<String> {
        let mut complete = json!({ "run": "mine" });
        let fields = complete.as_object_mut().expect("fields");
        fields.extend(more.as_object().expect("fields").clone());
        let before = self.desk.granted(&ann(), "run show", json!({ "run": "T-1" })).await;
        let problem = self.desk.refused(who, "run complete", complete).await;
        let after = self.desk.granted(&ann(), "run show", json!({ "run": "T-1" })).await;
        assert_eq!(before["lease"], after["lease"], "the lease is as it was");
        assert_eq!(code(&problem), "incomplete", "{problem}");
        let missing = problem["missing"].as_array().expect("a list").iter();
        let code = |one: &Value| one["code"].as_str().expect("a code").to_owned();
        missing.map(code).collect()
    }
}

fn files() -> Value {
    json!([
        { "id": "plan", "kind": "artifact", "path": "plan.md", "bytes_min": 10 },
        { "id": "report", "kind": "artifact", "path": "out/*.md" },
    ])
}

#[tokio::test]
async fn every_artifact_of_a_completion_is_here_as_it_is_said_and_all_that_is_not_is_listed() {
    let office = Office::new().await;
    let bea = office.holder("bea", files()).await;
    let none = office.codes(&bea, json!({})).await;
    assert_eq!(none, ["artifact_missing", "artifact_missing"]);

    let small = office.hand_in("plan.md", "short");
    let mut lied = office.hand_in("out/a.md", "a report");
    lied["bytes"] = 9.into();
    let unknown = json!({ "path": "out/b.md", "digest": "ab".repeat(32), "bytes": 5 });
    let more = json!({ "artifacts": [small, lied, unknown] });
    let codes = office.codes(&bea, more).await;
    assert_eq!(codes, ["artifact_too_small", "artifact_size", "artifact_not_uploaded"]);

    let elsewhere = json!({ "path": "../plan.md", "digest": "ab".repeat(32), "bytes": 50 });
    let wish = json!({ "run": "mine", "artifacts": [elsewhere] });
    let refused = office.desk.refused(&bea, "run complete", wish).await;
    assert_eq!(code(&refused), "invalid");

    let whole = json!({ "run": "mine", "artifacts": [
        office.hand_in("plan.md", "long enough"), office.hand_in("out/a.md", "a report"),
    ] });
    let done = office.desk.ask_as(&bea, "run complete", whole.clone(), "once").await;
    assert_eq!(done.expect("all of it is here").body["state"], "submitted");
    let again = office.desk.ask_as(&bea, "run complete", whole, "once").await;
    assert_eq!(again.expect("it happened").body["state"], "submitted", "asked once more");
}

#[tokio::test]
async fn what_an_attempt_before_submitted_is_not_made_by_the_next() {
    let office = Office::new().await;
    let contract = json!([{ "id": "report", "kind": "artifact", "path": "report.md" }]);
    let bea = office.holder("bea", contract).await;
    let old = office.hand_in("report.md", "an old report");
    let complete = |artifact: &Value| json!({ "run": "mine", "artifacts": [artifact] });
    office.desk.granted(&bea, "run complete", complete(&old)).await;
    // Nobody checks it, and the run is called off and tried again.
    let over = json!({ "run": "T-1", "reason": "not good enough" });
    office.desk.granted(&ann(), "run cancel", over.clone()).await;
    office.desk.granted(&ann(), "run retry", over).await;
    let claimed = office.desk.ask(&bot("bob"), "run claim", json!({ "task": "T-1" })).await;
    let bob = bot("bob").showing(&secret(&claimed.expect("it is queued"), "claim_token"));
    assert_eq!(office.codes(&bob, json!({ "artifacts": [old] })).await, ["artifact_stale"]);
    let new = office.hand_in("report.md", "a new report");
    let done = office.desk.granted(&bob, "run complete", complete(&new)).await;
    assert_eq!(done["state"], "submitted");
}

#[tokio::test]
async fn an_artifact_fits_the_schema_of_its_line() {
    let office = Office::new().await;
    let schema = r#"{ "type": "object", "required": ["passed"], "properties": { "passed": { "type": "integer" } } }"#;
    let schema = office.hand_in("schema", schema)["digest"].clone();
    let contract = json!([
        { "id": "report", "kind": "artifact", "path": "*.json", "schema": schema },
        { "id": "lost", "kind": "artifact", "path": "lost.txt", "schema": "cd".repeat(32) },
    ]);
    let bea = office.holder("bea", contract).await;
    let lost = office.hand_in("lost.txt", "{}");
    for bad in ["{}", r#"{ "passed": "all" }"#, "[]", "{", "passed: 5"] {
        let artifacts = json!({ "artifacts": [office.hand_in("a.json", bad), lost] });
        let codes = office.codes(&bea, artifacts).await;
        assert_eq!(codes, ["artifact_schema", "schema_not_uploaded"], "{bad}");
    }
    let good = office.hand_in("a.json", r#"{ "passed": 5 }"#);
    let codes = office.codes(&bea, json!({ "artifacts": [good, lost] })).await;
    assert_eq!(codes, ["schema_not_uploaded"]);
}

#[tokio::test]
async fn tasks_that_a_summary_tells_of_are_there() {
    let office = Office::new().await;
    let bea = office.holder("bea", json!([])).await;
    let summary = "Made T-7 and T-1, see (T-12). MT-3, T-03 and AT-5-x are no tasks.";
    let codes = office.codes(&bea, json!({ "summary": summary })).await;
    assert_eq!(codes, ["task_unknown", "task_unknown"]);
    let many: String = (1..=65).map(|number| format!("T-{number} ")).collect();
    let wish = json!({ "run": "mine", "summary": many });
    assert_eq!(code(&office.desk.refused(&bea, "run complete", wish).await), "invalid");
    let honest = json!({ "run": "mine", "summary": "All of T-1." });
    assert_eq!(office.desk.granted(&bea, "run complete", honest).await["state"], "completed");
}

#[tokio::test]
async fn a_waiver_is_a_persons_signed_receipt_and_makes_what_was_submitted_count() {
    let desk = Desk::new().await;
    let contract = json!([
        { "id": "guide", "kind": "criterion", "text": "The guide says so" },
        { "id": "tests", "kind": "gate", "command": "make test" },
    ]);
    let goal = json!({ "title": "report", "contract": contract });
    let started = desk.ask(&bot("bea"), "run start", goal).await.expect("it may");
    let bea = bot("bea").showing(&secret(&started, "claim_token"));
    let waive = |lines: Value| json!({ "run": "T-1", "lines": lines, "reason": "seen by eye" });
    let all = json!({ "run": "T-1", "reason": "seen by eye" });
    let early = desk.refused(&ann(), "run waive", all.clone()).await;
    assert_eq!(code(&early), "wrong_state", "nothing is submitted");
    let complete = json!({ "run": "mine", "tree": "4b825dc6" });
    desk.granted(&bea, "run complete", complete).await;

    for who in [bea, bot("bea"), worker()] {
        let refused = desk.refused(&who, "run waive", all.clone()).await;
        assert_ne!(code(&refused), "incomplete", "only a person vouches: {refused}");
    }
    let part = desk.refused(&ann(), "run waive", waive(json!(["tests"]))).await;
    assert_eq!(part["missing"], json!([{ "line": "guide", "code": "line_open", "path": "" }]));
    let other = desk.refused(&ann(), "run waive", waive(json!(["tests", "lint"]))).await;
    assert_eq!(code(&other), "invalid");
    desk.world.clock.advance(Millis::minutes(1));

    let done = desk.granted(&ann(), "run waive", waive(json!(["tests", "guide"]))).await;
    assert_eq!((&done["state"], &done["result"]), (&json!("completed"), &json!("verified")));
    let task = desk.granted(&ann(), "task show", json!({ "task": "T-1" })).await;
    assert_eq!(task["badge"], "done");
    let shown = json!({ "task": "T-1", "line": "tests" });
    let receipt = desk.granted(&ann(), "receipt show", shown).await;
    assert_eq!((&receipt["found"], &receipt["reason"]), (&json!("waived"), &json!("seen by eye")));

    let keys = desk.granted(&ann(), "receipt keys", json!({})).await;
    let public = Signer::new(&desk.world.engine.keyring().proving()).public();
    assert_eq!(keys["items"], json!([{ "id": public.id(), "key": public.digits() }]));
    let text = receipt["signed"].as_str().expect("it is signed");
    let (statement, _) = verify(text.as_bytes(), &[public]).expect("it is genuine");
    assert_eq!((statement.found, statement.by.as_str()), (Found::Waived, "ann"));
    assert_eq!(statement.tree.as_ref().map(|tree| tree.as_str()), Some("4b825dc6"));
    assert_eq!((statement.line.as_str(), statement.run.to_string()), ("tests", "R-1.1".to_owned()));
    let row = desk.world.engine.task(&tenant(), statement.task).await.expect("it can be read");
    let mark = row.what.and_then(|row| row.flow.contract.clone()).expect("it has a contract");
    assert_eq!(statement.contract, mark.hash);
}
