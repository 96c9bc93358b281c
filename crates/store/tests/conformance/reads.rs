//! Lists, counts and single rows: every store finds the same, in the same order.

use baton_domain::command::{NewTask, Person};
use baton_domain::history::Past;
use baton_domain::ids::{RunId, TaskId};
use baton_domain::run::Why;
use baton_domain::task::{Hold, Kind};
use baton_domain::time::Millis;
use baton_domain::view::{Badge, Need};
use baton_store::read::{About, Column, PAGE_MAX, RunNow, RunWord, SHOWN_MAX};
use baton_store::{Cursor, Error, Filter, HistoryKey, PastId, RunFilter, RunFull};

use crate::words::{
    abandon, block, checkpoint, complete, label, pipeline, principal, project, ready, solo, stage,
    story, text,
};
use crate::world::{Grip, World};

impl World {
    /// Every task that a filter shows, page by page, whatever the size of a page.
    async fn shown(&self, filter: Filter) -> Vec<u64> {
        let mut pages = vec![];
        for count_max in [1, 2, PAGE_MAX] {
            let (mut found, mut after) = (vec![], None);
            loop {
                let filter = Filter { after, count_max, ..filter.clone() };
                let page = self.store().tasks(&self.tenant, filter).await.expect("reading works");
                assert_eq!(page.as_of, self.head().await, "a list says how far it went");
                found.extend(page.rows.iter().map(|row| row.flow.id.0));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            pages.push(found);
        }
        assert!(pages.windows(2).all(|pair| pair[0] == pair[1]), "pages lose nothing: {pages:?}");
        pages.pop().unwrap_or_default()
    }

    async fn shown_runs(&self, filter: RunFilter) -> Vec<String> {
        let (mut found, mut after) = (vec![], None);
        loop {
            let filter = RunFilter { after, count_max: 1, ..filter.clone() };
            let page = self.store().runs(&self.tenant, filter).await.expect("reading works");
            found.extend(page.rows.iter().map(|row| row.id.to_string()));
            after = page.next;
            if after.is_none() {
                return found;
            }
        }
    }

    pub async fn head(&self) -> u64 {
        let start = self.store().entries(&self.tenant, Cursor::start(), PAGE_MAX).await;
        start.expect("reading works").as_of
    }

    async fn full(&self, task: TaskId, number: u32) -> Option<RunFull> {
        let read = self.store().run(&self.tenant, RunId { task, number }).await;
        read.expect("reading works").what
    }

    async fn at_work(&self) -> Grip {
        self.queued().await;
        self.claim(&solo("bob")).await.expect("there is work")
    }
}

pub async fn a_list_shows_what_every_filter_asks_for(world: &World) {
    world.put(pipeline("web", &["coding", "qa"])).await;
    world.put(pipeline("app", &["coding"])).await;
    let epic = world.make(NewTask { kind: Kind::Epic, ..story("an epic") }).await;
    let child = world
        .make(NewTask { parent: Some(epic), labels: [label("red")].into(), ..ready("a Child") })
        .await;
    let below = world
        .make(NewTask { parent: Some(child), body: Some(text("a hidden word")), ..story("below") })
        .await;
    let waiting = world.make(NewTask { depends_on: [child].into(), ..ready("waiting") }).await;
    let anns =
        NewTask { assignee: Some(principal("ann")), project: project("app"), ..ready("own") };
    let anns = world.make(anns).await;
    let gone = world.make(story("gone")).await;
    world.tell(gone, abandon()).await.expect("nobody wants it");
    let held = world.take(child, &solo("bob")).await.expect("it is ready");
    let (all, none) = (Filter::default(), Vec::<u64>::new());
    let live = [epic, child, below, waiting, anns].map(|id| id.0);
    assert_eq!(world.shown(all.clone()).await, live);
    let newest_first = Filter { newest_first: true, ended: true, ..all.clone() };
    assert_eq!(world.shown(newest_first).await, [6, 5, 4, 3, 2, 1]);
    let of = async |change: &dyn Fn(&mut Filter)| {
        let mut filter = Filter::default();
        change(&mut filter);
        world.shown(filter).await
    };
    assert_eq!(of(&|it| it.project = Some(project("app"))).await, [anns.0]);
    assert_eq!(of(&|it| it.stage = Some(Column::Backlog)).await, [epic.0, below.0]);
    let coding = Column::Working(stage("coding"));
    assert_eq!(of(&|it| it.stage = Some(coding.clone())).await, [child.0, waiting.0, anns.0]);
    let word = Column::Working(stage("backlog"));
    assert_eq!(of(&|it| it.stage = Some(word.clone())).await, none, "no stage has that name");
    assert_eq!(of(&|it| it.stage = Some(Column::Closed)).await, [gone.0]);
    assert_eq!(of(&|it| it.stage = Some(Column::Done)).await, none);
    assert_eq!(of(&|it| it.parent = Some(epic)).await, [child.0]);
    assert_eq!(of(&|it| it.tree = Some(epic)).await, [epic.0, child.0, below.0]);
    assert_eq!(of(&|it| it.tree = Some(TaskId(99))).await, none);
    assert_eq!(of(&|it| it.waits_for = Some(child)).await, [waiting.0]);
    assert_eq!(of(&|it| it.kind = Some(Kind::Epic)).await, [epic.0]);
    assert_eq!(of(&|it| it.badge = Some(Badge::Running)).await, [child.0]);
    assert_eq!(of(&|it| it.run = Some(RunWord::Leased)).await, [child.0]);
    assert_eq!(of(&|it| it.label = Some(label("red"))).await, [child.0]);
    assert_eq!(of(&|it| it.assignee = Some(principal("ann"))).await, [anns.0]);
    assert_eq!(of(&|it| it.holder = Some(principal("bob"))).await, [held.task.0]);
    assert_eq!(of(&|it| it.text = Some("CHILD".into())).await, [child.0]);
    assert_eq!(of(&|it| it.text = Some("Hidden".into())).await, [below.0]);
    assert_eq!(of(&|it| it.inbox = true).await, none);
}

pub async fn the_inbox_is_what_waits_for_a_person(world: &World) {
    let grip = world.at_work().await;
    world.agent(&grip, block(Why::NeedsInput)).await.expect("bob holds it");
    let approval = world.make(NewTask { needs_approval: true, ..ready("agree first") }).await;
    let silent = world.at_work().await;
    let renewed = Millis::minutes(30);
    let inbox = Filter { inbox: true, ended: true, ..Filter::default() };
    assert_eq!(world.shown(inbox.clone()).await, [grip.task.0, approval.0]);
    world.silence(renewed);
    assert_eq!(world.shown(inbox).await, [grip.task.0, approval.0, silent.task.0], "time tells");
    let because = |need| Filter { need: Some(need), ..Filter::default() };
    assert_eq!(world.shown(because(Need::Input)).await, [grip.task.0]);
    assert_eq!(world.shown(because(Need::Approval)).await, [approval.0]);
    assert_eq!(world.shown(because(Need::Failure)).await, Vec::<u64>::new());
}

pub async fn runs_are_listed_live_and_finished(world: &World) {
    world.put(pipeline("web", &["coding", "qa"])).await;
    let grip = world.at_work().await;
    world.agent(&grip, checkpoint("so far")).await.expect("bob holds it");
    world.agent(&grip, complete()).await.expect("bob holds it");
    let second = world.claim(&solo("bob")).await.expect("the next stage has a run");
    assert_eq!(second.task, grip.task);
    let other = world.queued().await;
    let all = RunFilter::default();
    assert_eq!(world.shown_runs(all.clone()).await, ["R-1.1", "R-1.2", "R-2.1"]);
    let backwards = RunFilter { newest_first: true, ..all.clone() };
    assert_eq!(world.shown_runs(backwards).await, ["R-2.1", "R-1.2", "R-1.1"]);
    let finished = RunFilter { live: Some(false), ..all.clone() };
    assert_eq!(world.shown_runs(finished).await, ["R-1.1"]);
    let live = RunFilter { live: Some(true), ..all.clone() };
    assert_eq!(world.shown_runs(live).await, ["R-1.2", "R-2.1"]);
    let of_task = RunFilter { task: Some(other), ..all.clone() };
    assert_eq!(world.shown_runs(of_task).await, ["R-2.1"]);
    let in_qa = RunFilter { stage: Some(stage("qa")), ..all.clone() };
    assert_eq!(world.shown_runs(in_qa).await, ["R-1.2"]);
    let bobs = RunFilter { holder: Some(principal("bob")), ..all.clone() };
    assert_eq!(world.shown_runs(bobs).await, ["R-1.2"]);
    let completed = RunFilter { state: Some(RunWord::Completed), ..all.clone() };
    assert_eq!(world.shown_runs(completed).await, ["R-1.1"]);
    let elsewhere = RunFilter { project: Some(project("app")), ..all };
    assert_eq!(world.shown_runs(elsewhere).await, Vec::<String>::new());
}

pub async fn a_run_is_shown_with_its_attempts_and_checkpoints(world: &World) {
    let grip = world.at_work().await;
    world.agent(&grip, checkpoint("so far")).await.expect("bob holds it");
    let live = world.full(grip.task, 1).await.expect("it is there");
    assert!(matches!(&live.row.run, RunNow::Live(_, Some(lease)) if lease.attempt == 1));
    assert_eq!((live.attempts.len(), live.checkpoints.len()), (0, 1));
    world.agent(&grip, complete()).await.expect("bob holds it");
    let finished = world.full(grip.task, 1).await.expect("it is there");
    assert!(matches!(finished.row.run, RunNow::Finished(_)));
    assert_eq!((finished.attempts.len(), finished.checkpoints.len()), (1, 1));
    assert_eq!((finished.attempts_dropped, finished.checkpoints_dropped), (0, 0));
    assert_eq!(world.full(grip.task, 2).await, None);
    assert_eq!(world.full(TaskId(99), 1).await, None);
    let acme = world.tenant("acme").await;
    assert_eq!(acme.full(grip.task, 1).await, None, "a foreign run looks like a missing one");
}

pub async fn a_history_of_any_length_comes_in_pages(world: &World) {
    let count = u32::try_from(PAGE_MAX).expect("a page is short") + 7;
    let grip = world.at_work().await;
    for number in 1..=count {
        let note = checkpoint(&format!("step {number}"));
        world.agent(&grip, note).await.expect("bob holds it");
    }
    world.agent(&grip, complete()).await.expect("bob holds it");
    let page = async |after: Option<HistoryKey>, count_max| {
        let page = world.store().history(&world.tenant, grip.task, after, count_max).await;
        let page = page.expect("reading works");
        assert_eq!(page.as_of, u64::from(count) + 4);
        (page.rows, page.next)
    };
    let (first, next) = page(None, usize::MAX).await;
    assert_eq!(first.len(), PAGE_MAX);
    let (rest, end) = page(next, usize::MAX).await;
    assert_eq!((rest.len(), end), (7 + 2, None), "seven notes, the attempt and the run");
    assert!(matches!(rest[7..], [Past::Attempt(_), Past::Run(_)]), "{rest:?}");
    let told: Vec<u32> = first
        .iter()
        .chain(&rest)
        .filter_map(|record| match record {
            Past::Checkpoint(note) => Some(note.number),
            Past::Attempt(_) | Past::Run(_) => None,
        })
        .collect();
    assert_eq!(told, (1..=count).collect::<Vec<_>>(), "every note once, in order");
    let (one, next) = page(None, 0).await;
    assert_eq!((one.len(), next.map(|key| key.number)), (1, Some(1)));
    let full = world.full(grip.task, 1).await.expect("it is there");
    assert_eq!(full.checkpoints.len(), SHOWN_MAX);
    assert_eq!(full.checkpoints_dropped, u64::from(count) - 100, "what is dropped is counted");
    assert_eq!(full.checkpoints[SHOWN_MAX - 1].number, count, "the last ones are shown");
}

pub async fn a_row_of_a_history_is_found_by_its_number(world: &World) {
    let grip = world.at_work().await;
    world.agent(&grip, checkpoint("so far")).await.expect("bob holds it");
    world.agent(&grip, complete()).await.expect("bob holds it");
    let past = async |world: &World, task, which| {
        let read = world.store().past(&world.tenant, task, which).await.expect("reading works");
        assert_eq!(read.as_of, world.head().await);
        read.what
    };
    let note = past(world, grip.task, PastId::Checkpoint(1)).await;
    assert!(matches!(&note, Some(Past::Checkpoint(own)) if own.number == 1), "{note:?}");
    let attempt = past(world, grip.task, PastId::Attempt(1)).await;
    assert!(matches!(&attempt, Some(Past::Attempt(own)) if own.number == 1), "{attempt:?}");
    let missing = [
        (grip.task, PastId::Attempt(2)),
        (grip.task, PastId::Checkpoint(0)),
        (TaskId(99), PastId::Attempt(1)),
    ];
    for (task, which) in missing {
        assert_eq!(past(world, task, which).await, None);
    }
    let acme = world.tenant("acme").await;
    assert_eq!(past(&acme, grip.task, PastId::Attempt(1)).await, None, "it is somebody else's");
}

pub async fn entries_of_a_task_are_found_by_their_versions(world: &World) {
    let grip = world.at_work().await;
    for number in 1..=3 {
        let note = checkpoint(&format!("step {number}"));
        world.agent(&grip, note).await.expect("bob holds it");
    }
    let acme = world.tenant("acme").await;
    let at = async |world: &World, task, versions: Vec<u64>| {
        let read = world.store().entries_at(&world.tenant, task, versions).await;
        let read = read.expect("reading works");
        assert_eq!(read.as_of, world.head().await);
        read.what.into_iter().map(|entry| entry.about).collect::<Vec<_>>()
    };
    let about = |version| About::Task(grip.task, version);
    let found = at(world, grip.task, vec![5, 2, 99, 0, 5]).await;
    assert_eq!(found, [about(2), about(5)], "oldest first, each once, and only what there is");
    assert_eq!(at(world, grip.task, vec![]).await, []);
    assert_eq!(at(world, TaskId(0), vec![1]).await, [], "records are no task");
    assert_eq!(at(&acme, grip.task, vec![1]).await, [], "they are somebody else's");
    let far = 3 + PAGE_MAX as u64;
    assert_eq!(at(world, grip.task, (1..=far).collect()).await, [about(4), about(5)]);
}

pub async fn counts_tell_what_is_where(world: &World) {
    let acme = world.tenant("acme").await;
    acme.queued().await;
    world.put(pipeline("app", &["coding"])).await;
    let grip = world.at_work().await;
    world.agent(&grip, block(Why::NeedsInput)).await.expect("bob holds it");
    let frozen = world.queued().await;
    world
        .tell(frozen, Person::Hold { hold: Hold::Frozen, on: true, reason: text("later") })
        .await
        .expect("a hold");
    let app = world.make(NewTask { project: project("app"), ..story("app") }).await;
    let gone = world.make(story("gone")).await;
    world.tell(gone, abandon()).await.expect("nobody wants it");
    let read = world.store().stats(&world.tenant, None).await.expect("reading works");
    assert_eq!(read.as_of, world.head().await);
    let stats = read.what;
    let coding = (project("web"), Column::Working(stage("coding")));
    assert_eq!(stats.columns[&coding], 2);
    assert_eq!(stats.columns[&(project("app"), Column::Backlog)], 1);
    assert_eq!(stats.badges[&Badge::Frozen], 1);
    assert_eq!((stats.runs[&RunWord::Blocked], stats.runs[&RunWord::Queued]), (1, 1));
    assert_eq!((stats.needs[&Need::Input], stats.inbox), (1, 1));
    assert_eq!((stats.ended, stats.more), (1, false));
    let of_app = world.store().stats(&world.tenant, Some(project("app"))).await;
    let of_app = of_app.expect("reading works").what;
    assert_eq!(of_app.columns.values().sum::<u64>(), 1, "{app} alone: {of_app:?}");
    assert_eq!(of_app.ended, 0);
}

pub async fn projects_and_pools_come_in_pages(world: &World) {
    use baton_domain::pool::PoolName;
    for name in ["app", "zoo"] {
        world.put(pipeline(name, &["coding"])).await;
    }
    for name in ["web", "app"] {
        world.limit(PoolName::Stage(project(name), stage("coding")), 3).await;
    }
    world.limit(PoolName::Holder(principal("bob")), 3).await;
    let store = world.store();
    let (mut names, mut after) = (vec![], None);
    loop {
        let page = store.projects(&world.tenant, after, 2).await.expect("reading works");
        names.extend(page.rows.iter().map(|project| project.id.to_string()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(names, ["app", "web", "zoo"]);
    let (mut pools, mut after) = (vec![], None);
    loop {
        let page = store.pools(&world.tenant, after, 1).await.expect("reading works");
        pools.extend(page.rows.into_iter().map(|row| row.name));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert!(pools.is_sorted() && pools.len() == 3, "{pools:?}");
}

pub async fn whoever_reads_a_task_can_follow_from_there(world: &World) {
    let task = world.queued().await;
    let read = world.store().task(&world.tenant, task).await.expect("reading works");
    world.tell(task, abandon()).await.expect("nobody wants it");
    let missed = world.entries_after(read.as_of).await;
    assert_eq!(missed.len(), 1, "what came after the read, and nothing else");
    let none = world.store().task(&world.tenant, TaskId(99)).await.expect("reading works");
    assert_eq!((none.what, none.as_of), (None, world.head().await));
}

pub async fn a_cursor_ahead_of_everything_has_expired(world: &World) {
    world.queued().await;
    let life = world.store().incarnation();
    let at = async |world: &World, incarnation, position| {
        let cursor = Cursor { incarnation, position };
        match world.store().entries(&world.tenant, cursor, 10).await {
            Ok(page) => Ok((page.rows.len(), page.as_of)),
            Err(Error::CursorExpired { floor }) => Err(floor),
            Err(error) => panic!("reading works: {error}"),
        }
    };
    assert_eq!(at(world, life, 2).await, Ok((0, 2)));
    assert_eq!(at(world, life, 0).await, Ok((2, 2)));
    assert_eq!(at(world, life, 3).await, Err(0));
    assert_eq!(at(world, 0, 3).await, Err(0));
    assert_eq!(at(world, life + 1, 0).await, Err(0));
    let nobody = world.stranger("nobody");
    assert_eq!(at(&nobody, 0, 0).await, Ok((0, 0)));
    assert_eq!(at(&nobody, life, 0).await, Ok((0, 0)));
    assert_eq!(at(&nobody, life, 1).await, Err(0), "somebody else's place is none of theirs");
    assert_eq!(at(&nobody, life + 1, 0).await, Err(0));
    assert_eq!(at(world, 0, 0).await, Ok((2, 2)));
    let one = world.store().entries(&world.tenant, Cursor::start(), 0).await;
    assert_eq!(one.map(|page| (page.rows.len(), page.more, page.as_of)).ok(), Some((1, true, 1)));
}

pub async fn a_store_keeps_its_names(world: &World) {
    let names = |world: &World| (world.store().incarnation(), world.store().deployment());
    let before = names(world);
    assert_ne!(before.0, 0, "zero stands for any life");
    world.reopen();
    assert_eq!(names(world), before);
}
