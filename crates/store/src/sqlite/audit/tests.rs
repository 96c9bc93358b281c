use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use baton_domain::command::{Agent, Claim, Command, NewTask, Note, Proof};
use baton_domain::ids::{Nonce, PrincipalId, ProjectId, StageName, TaskId, TenantId};
use baton_domain::lane::{Claimant, Wants};
use baton_domain::project::{PassedBy, Project, RecordCommand, StageSpec, WorkedBy};
use baton_domain::run::Mode;
use baton_domain::task::Priority;
use baton_domain::text::Text;
use rusqlite::{Connection, StatementStatus};

use super::whole;
use crate::Store;
use crate::order::{Actor, Aim, Kind, Order};
use crate::sqlite::{Options, SqliteStore, plan_once};

/// Steps of SQLite's machine between two counts.
const GRAIN: u64 = 100;

fn text<const MAX: usize>(words: &str) -> Text<MAX> {
    Text::new("text", words).expect("a short plain text")
}

fn ada() -> PrincipalId {
    PrincipalId::new("ada").expect("a plain word")
}

fn web() -> ProjectId {
    ProjectId::new("web").expect("a plain word")
}

fn coding() -> StageName {
    StageName::new("coding").expect("a plain word")
}

fn order(kind: Kind, aim: Aim) -> Order {
    let tenant = TenantId::new("local").expect("a plain word");
    let actor = Actor { principal: ada(), kind, origin: text("test"), trace: None };
    Order { tenant, actor, aim, request: None }
}

fn project() -> Order {
    let spec =
        StageSpec { name: coding(), worked_by: WorkedBy::Agent, passed_by: PassedBy::Server };
    let project = Project { pipeline: vec![spec], promote: true, ..Project::gone(web()) };
    order(Kind::Person, Aim::Record(RecordCommand::PutProject(project), None))
}

fn birth() -> Order {
    let task = NewTask { start_in: Some(coding()), ..NewTask::new(web(), ada(), text("one more")) };
    order(Kind::Person, Aim::Birth(web(), vec![Command::Create(Box::new(task))]))
}

fn claim(task: TaskId) -> Order {
    let claimant = Claimant {
        principal: ada(),
        person: false,
        mode: Mode::Solo,
        capabilities: [].into(),
        account: None,
        agents: vec![],
        project: None,
        stage: None,
        priority_min: Priority::Low,
        wants: Wants::Ready,
    };
    let claim = Command::Claim(Claim { claimant, nonce: Nonce(7), lease: None });
    order(Kind::Agent, Aim::Task(task, vec![claim]))
}

fn checkpoint(task: TaskId) -> Order {
    let note = Agent::Checkpoint(Box::new(Note {
        summary: text("half of it"),
        cursor: None,
        evidence: vec![],
        git: [].into(),
    }));
    let proof = Proof::Caller { attempt: 1, principal: ada() };
    order(Kind::Agent, Aim::Task(task, vec![Command::Agent(proof, note)]))
}

/// A folder with so many tasks, each with so many checkpoints.
fn folder(tasks: usize, checkpoints: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(folder.path(), ours).expect("it is ours");
    let chance = Box::new(|bytes: &mut [u8]| bytes.fill(7));
    let mut options = Options::new(baton_domain::decide, chance, Path::new("."));
    options.synchronous = "OFF";
    let store = SqliteStore::open(folder.path(), options).expect("a new store");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let done = |order| runtime.block_on(store.submit(order)).expect("nothing speaks against it");
    done(project());
    for _ in 0..tasks {
        let task = done(birth()).task.expect("a task").id;
        done(claim(task));
        for _ in 0..checkpoints {
            done(checkpoint(task));
        }
    }
    folder
}

/// What an audit of a folder costs, in steps of SQLite's machine for each entry.
fn steps_per_entry(folder: &Path) -> u64 {
    let mut conn = Connection::open(folder.join("baton.db")).expect("it opens");
    plan_once(&conn).expect("it can be set");
    let steps = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&steps);
    let grain = i32::try_from(GRAIN).expect("a small number");
    let tick = move || {
        count.fetch_add(GRAIN, Ordering::Relaxed);
        false
    };
    conn.progress_handler(grain, Some(tick)).expect("it can be watched");
    let audit = whole(&conn, None).expect("it can be audited");
    assert_eq!((audit.fault, audit.ended), (None, true));
    steps.load(Ordering::Relaxed) / audit.entries
}

#[test]
fn an_entry_costs_the_same_beside_ten_times_as_many() {
    for (few, many) in [((30, 1), (300, 1)), ((1, 60), (1, 600))] {
        let (beside_few, beside_many) = (folder(few.0, few.1), folder(many.0, many.1));
        let beside_few = steps_per_entry(beside_few.path());
        let beside_many = steps_per_entry(beside_many.path());
        assert!(beside_many <= beside_few * 2, "{beside_few} steps, then {beside_many}: {many:?}");
    }
}

#[test]
fn a_statement_is_planned_once_whatever_is_bound() {
    let conn = Connection::open_in_memory().expect("there is memory");
    plan_once(&conn).expect("it can be set");
    conn.execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER)").expect("it is SQL");
    let mut found = conn.prepare("SELECT 1 FROM t WHERE a = ?1 AND b = ?2").expect("it is SQL");
    for value in 0..3 {
        assert!(!found.exists([value, value]).expect("it reads"));
    }
    assert_eq!(found.get_status(StatementStatus::RePrepare), 0);
}
