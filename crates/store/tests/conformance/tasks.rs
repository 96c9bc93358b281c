//! Tasks are kept as they were written, and refused orders leave nothing behind.

use std::collections::{BTreeMap, BTreeSet};

use baton_domain::Refusal;
use baton_domain::command::{Clear, Command, Expect, NewTask, Patch, Person, Proof, Supervisor};
use baton_domain::contract::{Contract, Term};
use baton_domain::ids::{Digest, Nonce, TaskId};
use baton_domain::policy::{Choice, Policy};
use baton_domain::run::Death;
use baton_domain::task::{Kind, Priority};
use baton_domain::time::Millis;
use baton_store::read::Column;
use baton_store::{Aim, Filter};

use crate::dump::assert_same;
use crate::words::{
    abandon, capability, complete, key, label, line, pipeline, principal, project, ready, retitle,
    solo, stage, story, text,
};
use crate::world::World;

/// A task in which nothing is left at its default.
fn rich(parent: TaskId, on: TaskId) -> NewTask {
    let term = |kind| match kind {
        0 => Term::Artifact { path: text("out/report.md"), bytes_min: 12, schema: None },
        1 => Term::Gate { command: text("cargo test"), timeout: Millis::minutes(5) },
        2 => Term::Criterion { text: text("it reads well"), check: Some(text("spell .")) },
        _ => Term::Gate { command: text("make sure"), timeout: Millis::minutes(1) },
    };
    let lines = [("report", 0), ("tests", 1), ("words", 2), ("review", 3)];
    let contract = Contract { lines: lines.map(|(name, kind)| (line(name), term(kind))).into() };
    NewTask {
        creator_task: Some(parent),
        body: Some(text("In two lines:\n\t\"quoted\", 漢字, 🙂 and an apostrophe's end.")),
        kind: Kind::Spike,
        priority: Priority::Urgent,
        labels: BTreeSet::from([label("area/store"), label("size:s")]),
        parent: Some(parent),
        depends_on: BTreeSet::from([on]),
        assignee: Some(principal("bob")),
        capabilities: BTreeSet::from([capability("gpu"), capability("rust")]),
        key: Some(key("deploy")),
        policy: Policy { attempts_max: 7, budget_micros: 1 << 40, ..Policy::default() },
        contract: Some((contract, digest('c'))),
        needs_approval: true,
        start_in: Some(stage("coding")),
        start_at: Some(baton_domain::time::Timestamp(1_800_000_600_123)),
        ..story("Everything is chosen")
    }
}

fn digest(digit: char) -> Digest {
    Digest::new(&digit.to_string().repeat(64)).expect("hex digits make a digest")
}

pub async fn a_committed_task_reads_as_it_was_written(world: &World) {
    let parent = world.make(NewTask { kind: Kind::Epic, ..story("parent") }).await;
    let on = world.make(story("first this")).await;
    let new = rich(parent, on);
    let aim = Aim::Birth(new.project.clone(), vec![Command::Create(Box::new(new.clone()))]);
    let committed = world.ask(aim).await.expect("nothing is wrong with it");
    let row = world.row(TaskId(3)).await;
    assert_eq!(committed.task.as_deref(), Some(&*row.flow), "the answer is what is read");
    assert_eq!(committed.at, row.flow.created_at);
    assert_eq!((row.brief.title, row.brief.body), (new.title, new.body));
    assert_eq!((row.brief.labels, row.flow.key.clone()), (new.labels, new.key));
    assert_eq!(Some(row.brief.contract), new.contract.map(|(contract, _)| contract));
    assert_eq!((row.flow.policy, row.flow.priority), (new.policy, new.priority));
    assert_eq!((row.flow.assignee.clone(), row.flow.kind), (new.assignee, new.kind));
    assert_eq!((&row.flow.capabilities, row.flow.parent()), (&new.capabilities, new.parent));
    assert_eq!(row.lease, None);
}

pub async fn a_task_changed_in_every_field_reads_as_it_was_changed(world: &World) {
    let task = world.make(NewTask { body: Some(text("old")), ..ready("old") }).await;
    let contract = Contract {
        lines: BTreeMap::from([(
            line("review"),
            Term::Gate { command: text("make sure"), timeout: Millis::minutes(1) },
        )]),
    };
    let patch = Patch {
        title: Some(text("new")),
        body: None,
        priority: Some(Priority::Low),
        labels: Some(BTreeSet::from([label("new")])),
        assignee: Some(principal("carl")),
        capabilities: Some(BTreeSet::from([capability("new")])),
        policy: Some(Choice { losses_max: Some(3), ..Choice::default() }),
        contract: Some((contract.clone(), digest('d'))),
        clear: BTreeSet::from([Clear::Body]),
    };
    world.tell(task, Person::Edit(Box::new(patch))).await.expect("an edit is accepted");
    let row = world.row(task).await;
    assert_eq!((row.brief.title.as_str(), row.brief.body), ("new", None));
    assert_eq!((row.brief.labels, row.brief.contract), ([label("new")].into(), contract));
    assert_eq!((row.flow.priority, row.flow.policy.losses_max), (Priority::Low, 3));
    assert_eq!(row.flow.assignee, Some(principal("carl")));
    assert_eq!((row.flow.version, row.flow.capabilities.len()), (2, 1));
}

pub async fn tasks_are_numbered_without_gaps(world: &World) {
    assert_eq!(world.birth(story("one")).await, Ok(TaskId(1)));
    let bad = NewTask { start_in: Some(stage("nowhere")), ..story("refused") };
    assert_eq!(world.birth(bad).await, Err(Refusal::NoStage { stage: stage("nowhere") }));
    let orphan = NewTask { parent: Some(TaskId(77)), ..story("refused") };
    assert_eq!(world.birth(orphan).await, Err(Refusal::NotFound));
    assert_eq!(world.birth(story("two")).await, Ok(TaskId(2)));
}

pub async fn tasks_born_at_once_are_numbered_without_gaps(world: &World) {
    let births: Vec<_> = (0..40)
        .map(|count| {
            let world = world.clone();
            let start_in = (count % 4 != 0).then(|| stage("coding"));
            let wrong = (count % 8 == 0).then(|| stage("nowhere"));
            let new = NewTask { start_in: start_in.or(wrong), ..story("many") };
            tokio::spawn(async move { world.birth(new).await })
        })
        .collect();
    let mut numbers = BTreeSet::new();
    for birth in births {
        numbers.extend(birth.await.expect("no birth panics").map(|id| id.0));
    }
    assert_eq!(numbers, (1..=35).collect(), "five were refused and used no number");
}

pub async fn unknown_ids_leave_no_trace(world: &World) {
    world.queued().await;
    let before = world.dump().await;
    let nobody = Proof::Token { attempt: 1, nonce: Nonce(1) };
    let stopped = Supervisor::Stopped { death: Death::Cgroup, survivor: false };
    let asked = [
        Command::Person(retitle("ghost")),
        Command::Person(abandon()),
        Command::Claim(world.wish(&solo("bob"))),
        Command::Agent(nobody.clone(), complete()),
        Command::Supervisor(nobody, stopped),
        Command::Create(Box::new(story("ghost"))),
    ];
    for command in asked {
        let answer = world.ask(Aim::Task(TaskId(99), vec![command])).await;
        assert_eq!(answer.err(), Some(Refusal::NotFound));
    }
    let elsewhere = NewTask { project: project("ghost"), ..story("ghost") };
    assert_eq!(world.birth(elsewhere).await, Err(Refusal::NotFound));
    assert_eq!(world.store().task(&world.tenant, TaskId(99)).await.expect("reads").what, None);
    assert_eq!(world.history(TaskId(99)).await, vec![]);
    assert_same(&before, &world.dump().await, "asking for ghosts");
}

pub async fn a_foreign_id_looks_like_a_missing_one(world: &World) {
    let task = world.queued().await;
    let grip = world.claim(&solo("bob")).await.expect("there is work");
    for other in [world.tenant("acme").await, world.stranger("nobody")] {
        let before = (world.dump().await, other.dump().await);
        let missing = other.tell(TaskId(99), retitle("mine")).await.err();
        assert_eq!(missing, Some(Refusal::NotFound));
        assert_eq!(other.tell(task, retitle("mine")).await.err(), missing);
        assert_eq!(other.agent(&grip, complete()).await.err(), missing);
        assert_eq!(other.take(task, &solo("bob")).await.err(), missing);
        assert_eq!(other.claim(&solo("bob")).await, Err(Refusal::NothingClaimable));
        assert_eq!(other.store().task(&other.tenant, task).await.expect("reads").what, None);
        assert_eq!(other.all_tasks().await, vec![]);
        assert_eq!(before, (world.dump().await, other.dump().await), "nothing was left behind");
    }
}

pub async fn tenants_have_the_same_numbers_and_share_nothing(world: &World) {
    let other = world.tenant("acme").await;
    let (ours, theirs) = (world.make(ready("ours")).await, other.make(ready("theirs")).await);
    assert_eq!(ours, theirs);
    let held = world.claim(&solo("bob")).await.expect("there is work of ours");
    other.tell(theirs, retitle("still theirs")).await.expect("theirs to change");
    assert_eq!(world.row(ours).await.brief.title.as_str(), "ours");
    assert_eq!(other.row(theirs).await.lease, None);
    world.agent(&held, complete()).await.expect("ours to complete");
    assert!(other.row(theirs).await.flow.run.is_some(), "their run waits as before");
    other.check_laws().await;
}

pub async fn a_refused_order_leaves_no_trace(world: &World) {
    let task = world.queued().await;
    let grip = world.take(task, &solo("bob")).await.expect("there is work");
    let before = world.dump().await;
    let refused = [
        Command::Claim(world.wish(&solo("eve"))),
        Command::Person(Person::Approve),
        Command::Person(Person::Unblock(text("go"))),
        Command::Person(Person::Depend { on: task, wait: true }),
        Command::Person(Person::Move { to: Some(stage("nowhere")), start_at: None }),
        Command::Supervisor(grip.proof(), Supervisor::Renew { lease: Some(Millis(1)) }),
        Command::Agent(Proof::Token { attempt: 1, nonce: Nonce(0) }, complete()),
    ];
    for command in refused {
        let shown = format!("{command:?}");
        let answer = world.ask(Aim::Task(task, vec![command])).await;
        assert!(answer.is_err(), "{shown} is refused");
    }
    assert_same(&before, &world.dump().await, "refusals");
}

pub async fn the_first_refusal_refuses_the_whole_order(world: &World) {
    let task = world.queued().await;
    let before = world.dump().await;
    let half = vec![Command::Person(retitle("half")), Command::Person(Person::Approve)];
    assert!(world.ask(Aim::Task(task, half)).await.is_err());
    let create = Command::Create(Box::new(story("half")));
    let half = vec![create, Command::Person(Person::Approve)];
    assert!(world.ask(Aim::Birth(project("web"), half)).await.is_err());
    for empty_or_long in [0, 5] {
        let many = vec![Command::Person(retitle("more")); empty_or_long];
        assert!(world.ask(Aim::Task(task, many)).await.is_err());
    }
    assert_same(&before, &world.dump().await, "half an order");
}

pub async fn the_commands_of_one_order_are_one_entry(world: &World) {
    let wish = world.wish(&solo("bob"));
    let create = Command::Create(Box::new(ready("at once")));
    let claimed = world.grip(Aim::Birth(project("web"), vec![create, Command::Claim(wish)])).await;
    let grip = claimed.expect("a task may be born into somebody's hands");
    let row = world.row(grip.task).await;
    assert_eq!((row.flow.version, row.lease.map(|lease| lease.attempt)), (1, Some(1)));
    let both = vec![Command::Person(retitle("one")), Command::Agent(grip.proof(), complete())];
    world.ask(Aim::Task(grip.task, both)).await.expect("both are accepted");
    assert_eq!(world.row(grip.task).await.flow.version, 2);
}

pub async fn asking_for_what_is_so_already_changes_nothing(world: &World) {
    let task = world.queued().await;
    let before = world.dump().await;
    for says in [
        Person::Publish,
        Person::Depend { on: TaskId(9), wait: false },
        Person::Edit(Box::default()),
        Person::Move { to: Some(stage("coding")), start_at: None },
        Person::Retry(text("it is queued")),
    ] {
        let committed = world.tell(task, says).await.expect("repeating is no refusal");
        assert_eq!(committed.position, None);
        assert_eq!(committed.task.map(|flow| flow.version), Some(1));
    }
    assert_same(&before, &world.dump().await, "repeating");
}

pub async fn an_edit_of_an_old_version_is_refused(world: &World) {
    let task = world.queued().await;
    let edit = |version| {
        let expect = Command::Expect(Expect { version: Some(version), run: None });
        world.ask(Aim::Task(task, vec![expect, Command::Person(retitle("edited"))]))
    };
    edit(1).await.expect("the version is the present one");
    let before = world.dump().await;
    let refused = edit(1).await.err();
    assert_eq!(refused, Some(Refusal::VersionChanged { version: 2 }));
    assert_same(&before, &world.dump().await, "an edit of an old version");
    edit(2).await.expect("the version is the present one");
}

pub async fn lists_show_what_they_are_asked_for(world: &World) {
    world.put(pipeline("web", &["coding", "qa"])).await;
    world.put(pipeline("app", &["coding"])).await;
    let epic = world.make(NewTask { kind: Kind::Epic, ..story("epic") }).await;
    let child = world.make(NewTask { parent: Some(epic), ..story("child") }).await;
    let in_qa = world.make(NewTask { start_in: Some(stage("qa")), ..story("qa") }).await;
    let app = world.make(NewTask { project: project("app"), ..ready("app") }).await;
    let gone = world.make(story("gone")).await;
    world.tell(gone, abandon()).await.expect("nobody wants it");
    let list = async |filter: Filter| {
        let filter = Filter { count_max: 10, ..filter };
        let page = world.store().tasks(&world.tenant, filter).await.expect("reading works");
        page.rows.iter().map(|row| row.flow.id).collect::<Vec<_>>()
    };
    let all = Filter::default();
    assert_eq!(list(all.clone()).await, [epic, child, in_qa, app]);
    assert_eq!(list(Filter { ended: true, ..all.clone() }).await, [epic, child, in_qa, app, gone]);
    assert_eq!(list(Filter { parent: Some(epic), ..all.clone() }).await, [child]);
    assert_eq!(
        list(Filter { stage: Some(Column::Working(stage("qa"))), ..all.clone() }).await,
        [in_qa]
    );
    assert_eq!(list(Filter { project: Some(project("app")), ..all.clone() }).await, [app]);
    assert_eq!(list(Filter { after: Some(in_qa), ..all }).await, [app]);
}

pub async fn lists_come_in_pages(world: &World) {
    for _ in 0..5 {
        world.queued().await;
    }
    let page = async |after: Option<u64>, count_max| {
        let filter = Filter { after: after.map(TaskId), count_max, ..Filter::default() };
        let page = world.store().tasks(&world.tenant, filter).await.expect("reading works");
        assert_eq!(page.as_of, 6, "five births and a project were committed");
        (page.rows.iter().map(|row| row.flow.id.0).collect::<Vec<_>>(), page.next.map(|id| id.0))
    };
    assert_eq!(page(None, 2).await, (vec![1, 2], Some(2)));
    assert_eq!(page(Some(2), 3).await, (vec![3, 4, 5], None));
    assert_eq!(page(Some(5), 2).await, (vec![], None));
    assert_eq!(page(None, usize::MAX).await, (vec![1, 2, 3, 4, 5], None));
    assert_eq!(page(None, 0).await, (vec![1], Some(1)), "nobody gets an empty page for ever");
}

pub async fn everything_is_there_again_after_a_restart(world: &World) {
    let task = world.queued().await;
    let grip = world.claim(&solo("bob")).await.expect("there is work");
    world.queued().await;
    world
        .limit(
            baton_domain::pool::PoolName::Stage(
                crate::words::project("web"),
                crate::words::stage("coding"),
            ),
            5,
        )
        .await;
    let before = world.dump().await;
    world.reopen();
    assert_same(&before, &world.dump().await, "a restart");
    world.agent(&grip, complete()).await.expect("the lease is there again, with its nonce");
    assert!(world.row(task).await.flow.ending().is_some());
    assert_eq!(world.queued().await, TaskId(3), "numbers go on where they were");
    world.claim(&solo("bob")).await.expect("what was queued is queued again");
}
