//! Projects and pools.

use std::collections::BTreeSet;

use baton_domain::Refusal;
use baton_domain::command::{NewTask, Person};
use baton_domain::ids::TaskId;
use baton_domain::lane::Lane;
use baton_domain::pool::PoolName;
use baton_domain::project::{Landing, Project, RecordCommand, RecordEvent};
use baton_domain::task::{Ending, Stage};
use baton_domain::time::Millis;
use baton_store::read::{About, Happened};
use baton_store::{Aim, Freed};

use crate::dump::assert_same;
use crate::words::{
    abandon, complete, key, pipeline, project, ready, shut, solo, stage, story, text,
};
use crate::world::World;

impl World {
    async fn remove(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let aim = Aim::Record(RecordCommand::RemoveProject, Some(project(name)));
        self.ask(aim).await.map(|committed| committed.position)
    }

    async fn change(&self, project: Project) -> Result<Option<u64>, Refusal> {
        let aim = Aim::Record(RecordCommand::PutProject(project), None);
        self.ask(aim).await.map(|committed| committed.position)
    }

    async fn project_names(&self) -> Vec<String> {
        let projects = self.store().projects(&self.tenant, None, 500).await.expect("reading works");
        projects.rows.iter().map(|it| it.id.to_string()).collect()
    }
}

pub async fn a_project_reads_as_it_was_written(world: &World) {
    let written = Project {
        root: Some(text("/srv/app")),
        archive_after: Some(Millis::hours(24)),
        promote: true,
        landing: Landing::default(),
        ..pipeline("app", &["coding", "qa", "merge"])
    };
    assert_eq!(world.change(written.clone()).await, Ok(Some(2)));
    let projects =
        world.store().projects(&world.tenant, None, 500).await.expect("reading works").rows;
    assert!(projects.iter().any(|it| **it == written), "{projects:?}");
    let entry = world.entries().await.pop().expect("there are entries");
    assert_eq!(entry.about, About::Records(2));
    let put = RecordEvent::ProjectPut { project: written.clone() };
    assert_eq!(entry.happened, Happened::ToRecord(vec![put]));
    assert_eq!(world.change(written).await, Ok(None), "it is so already");
    assert_eq!(world.entries().await.len(), 2);
}

pub async fn a_malformed_project_is_refused(world: &World) {
    let before = world.dump().await;
    for stages in [&[][..], &["one", "one"], &["backlog"]] {
        let refused = world.change(pipeline("bad", stages)).await;
        assert!(matches!(refused, Err(Refusal::Invalid { .. })), "{refused:?}");
    }
    assert_eq!(world.remove("ghost").await, Err(Refusal::NotFound));
    let nameless = world.ask(Aim::Record(RecordCommand::RemoveProject, None)).await;
    assert_eq!(nameless.err(), Some(Refusal::NotFound));
    assert_same(&before, &world.dump().await, "refusals");
}

pub async fn an_occupied_stage_cannot_be_lost(world: &World) {
    world.put(pipeline("web", &["coding", "qa"])).await;
    let task = world.make(NewTask { start_in: Some(stage("qa")), ..story("in qa") }).await;
    let lost = world.change(pipeline("web", &["coding"])).await;
    assert_eq!(lost, Err(Refusal::StageOccupied { stage: stage("qa") }));
    let more = pipeline("web", &["qa", "coding", "merge"]);
    world.change(more).await.expect("it is there still");
    world.tell(task, abandon()).await.expect("a person may abandon");
    world.change(pipeline("web", &["coding"])).await.expect("nobody stands there any more");
}

pub async fn a_changed_pipeline_is_followed_from_then_on(world: &World) {
    let task = world.queued().await;
    let grip = world.claim(&solo("bob")).await.expect("there is work");
    world.put(pipeline("web", &["coding", "qa"])).await;
    world.agent(&grip, complete()).await.expect("bob holds it");
    assert_eq!(world.row(task).await.flow.stage, Stage::Working(stage("qa")));
}

pub async fn a_project_with_live_tasks_cannot_be_removed(world: &World) {
    let task = world.queued().await;
    let other = world.make(story("waits")).await;
    assert_eq!(world.remove("web").await, Err(Refusal::ProjectInUse { live: 2 }));
    world.tell(task, abandon()).await.expect("a person may abandon");
    world.tell(other, abandon()).await.expect("a person may abandon");
    assert!(world.remove("web").await.is_ok());
    assert_eq!(world.project_names().await, Vec::<String>::new());
    assert_eq!(world.birth(story("late")).await, Err(Refusal::NotFound));
    let row = world.row(task).await;
    assert!(matches!(row.flow.ending(), Some(Ending::Abandoned { .. })), "history stays");
    world.tell(task, Person::Archive).await.expect("what ended can still be put away");
    world.put(pipeline("web", &["coding"])).await;
    assert_eq!(world.birth(story("anew")).await, Ok(TaskId(3)), "numbers are not used again");
}

pub async fn ended_tasks_are_put_away_in_time(world: &World) {
    let archive_after = Some(Millis::minutes(1));
    world.put(Project { archive_after, ..pipeline("web", &["coding"]) }).await;
    let task = world.make(story("short")).await;
    world.tell(task, abandon()).await.expect("a person may abandon");
    world.wait(Millis(59_999)).await;
    assert!(matches!(world.row(task).await.flow.stage, Stage::Ended(_)));
    world.wait(Millis(1)).await;
    assert!(matches!(world.row(task).await.flow.stage, Stage::Archived(_)));
    let version = world.row(task).await.flow.version;
    world.wait(Millis::minutes(5)).await;
    assert_eq!(world.row(task).await.flow.version, version, "once is enough");
}

pub async fn a_shorter_keeping_time_counts_for_what_ended_before(world: &World) {
    let task = world.make(story("short")).await;
    world.tell(task, abandon()).await.expect("a person may abandon");
    world.wait(Millis::minutes(2)).await;
    let archive_after = Some(Millis::minutes(1));
    world.put(Project { archive_after, ..pipeline("web", &["coding"]) }).await;
    assert_eq!(world.sweep().await.due, 1);
    assert!(matches!(world.row(task).await.flow.stage, Stage::Archived(_)));
}

pub async fn every_pool_order_is_an_entry(world: &World) {
    let pool = PoolName::Key(project("web"), crate::words::key("db"));
    let shut = Some(shut(world.now(), Some(world.now() + Millis::hours(1))));
    let events = [
        RecordEvent::PoolLimited { pool: pool.clone(), limit: Some(u64::MAX >> 1) },
        RecordEvent::PoolShut { pool: pool.clone(), shut: shut.clone() },
        RecordEvent::PoolLimited { pool: pool.clone(), limit: None },
        RecordEvent::PoolShut { pool: pool.clone(), shut: None },
    ];
    let limit = Some(u64::MAX >> 1);
    world.record(RecordCommand::LimitPool { pool: pool.clone(), limit }).await;
    world.record(RecordCommand::ShutPool { pool: pool.clone(), shut }).await;
    let kept = world.pool(&pool).await.expect("somebody set it");
    assert_eq!((kept.limit, kept.shut.is_some()), (limit, true), "one does not undo the other");
    world.record(RecordCommand::LimitPool { pool: pool.clone(), limit: None }).await;
    world.record(RecordCommand::ShutPool { pool, shut: None }).await;
    let told = world.entries_after(1).await;
    for ((version, entry), event) in (2..).zip(&told).zip(events) {
        assert_eq!(entry.about, About::Records(version));
        assert_eq!(entry.happened, Happened::ToRecord(vec![event]));
    }
    assert_eq!(told.len(), 4);
}

/// Whether a hint names a lane of this stage.
fn names_lane(freed: &[Freed], expected: &str) -> bool {
    freed.iter().any(|freed| match freed {
        Freed::Lane(_, Lane { stage, .. }) => stage.as_str() == expected,
        Freed::Pools(_) | Freed::Entries(_) => false,
    })
}

pub async fn whatever_is_written_rings_the_bell(world: &World) {
    let (own, nobody) = (BTreeSet::from([world.tenant.clone()]), BTreeSet::new());
    world.told().await;
    let task = world.queued().await;
    assert_eq!(world.told().await, own, "a task was made");
    world.tell(task, Person::Publish).await.expect("it is published already");
    assert_eq!(world.told().await, nobody, "nothing was written");
    world.claim(&solo("bob")).await.expect("there is work");
    assert_eq!(world.told().await, own, "a run was claimed");
    world.wait(Millis::minutes(6)).await;
    assert!(world.told().await.contains(&world.tenant), "a lease ended by itself");
}

pub async fn whatever_becomes_claimable_rings_the_bell(world: &World) {
    let pools = || Freed::Pools(world.tenant.clone());
    world.rung().await;
    world.make(story("backlog")).await;
    assert_eq!(world.rung().await, [], "nobody can claim that");
    let task = world.queued().await;
    assert!(names_lane(&world.rung().await, "coding"), "a run was opened");
    world.limit(PoolName::Key(project("web"), key("one")), 5).await;
    let coding = PoolName::Stage(project("web"), stage("coding"));
    world.limit(coding.clone(), 1).await;
    let grip = world.claim(&solo("bob")).await.expect("there is work");
    assert_eq!(world.rung().await, [], "a claim frees nothing");
    world.wait(Millis::minutes(5)).await;
    let rung = world.rung().await;
    assert!(names_lane(&rung, "coding"), "the lease expired: {rung:?}");
    assert!(rung.contains(&pools()), "and its slot is free: {rung:?}");
    world.agent(&grip, complete()).await.expect_err("bob comes late");
    assert_eq!(world.rung().await, [], "a refusal frees nothing");
    world.limit(coding.clone(), 2).await;
    assert_eq!(world.rung().await, [], "there was room before");
    let until = Some(world.now() + Millis::seconds(3));
    let pause = shut(world.now(), until);
    world.record(RecordCommand::ShutPool { pool: coding, shut: Some(pause) }).await;
    assert_eq!(world.rung().await, [], "a pause frees nothing");
    world.wait(Millis::seconds(3)).await;
    assert!(world.rung().await.contains(&pools()), "time opened it");
    world.tell(task, Person::Cancel(text("no"))).await.expect("a person may cancel");
    assert_eq!(world.rung().await, []);
    world.make(ready("more")).await;
    assert_eq!(world.rung().await.len(), 1);
}
