//! A repeated request is carried out once.

use baton_domain::Refusal;
use baton_domain::command::{Command, Person, Proof, Supervisor};
use baton_domain::ids::TaskId;
use baton_domain::lane::Claimant;
use baton_domain::pool::PoolName;
use baton_domain::project::RecordCommand;
use baton_domain::time::Millis;
use baton_store::{Aim, Committed, Error};

use crate::dump::assert_same;
use crate::words::{
    caller, complete, pipeline, project, ready, retitle, shut, solo, stage, story, text,
};
use crate::world::{World, request};

fn birth() -> Aim {
    Aim::Birth(project("web"), vec![Command::Create(Box::new(story("once")))])
}

impl World {
    async fn claim_under(&self, key: &str, claimant: &Claimant) -> Result<Committed, Error> {
        let aim = Aim::Next(self.wish(claimant));
        self.order(caller(claimant.principal.as_str()), aim, request(key, 1)).await
    }
}

pub async fn a_repeated_request_gets_the_same_answer(world: &World) {
    let first = world.order(caller("ann"), birth(), request("k", 1)).await.expect("it is new");
    world.silence(Millis::seconds(1));
    let after = world.dump().await;
    let again = world.order(caller("ann"), birth(), request("k", 1)).await.expect("it is known");
    assert_eq!((first.replayed, again.replayed), (false, true));
    assert_eq!((first.at, first.position, first.task), (again.at, again.position, again.task));
    assert_same(&after, &world.dump().await, "a repeated request");
}

pub async fn a_repeated_request_shows_the_task_as_it_is_now(world: &World) {
    let first = world.order(caller("ann"), birth(), request("k", 1)).await.expect("it is new");
    world.tell(TaskId(1), retitle("changed")).await.expect("an edit is accepted");
    let again = world.order(caller("ann"), birth(), request("k", 1)).await.expect("it is known");
    assert_eq!(again.position, first.position, "the entry is the one of the birth");
    assert_eq!(again.task.map(|flow| flow.version), Some(2));
}

pub async fn a_repeated_request_is_told_of_its_own_run(world: &World) {
    world.put(pipeline("web", &["coding", "qa"])).await;
    let born = Aim::Birth(project("web"), vec![Command::Create(Box::new(ready("work")))]);
    let born = world.order(caller("ann"), born, request("born", 1)).await.expect("it is new");
    assert_eq!(born.run, Some(1), "the run that it opened");
    let task = born.task.expect("a birth is about a task").id;
    let first = world.claim_under("k", &solo("bob")).await.expect("there is work");
    let grip = world.take(task, &solo("eve")).await;
    assert!(matches!(grip, Err(Refusal::Held { .. })), "{grip:?}");
    let lease = first.lease.expect("it is claimed");
    let proof = || Proof::Token { attempt: lease.attempt, nonce: lease.nonce };
    let done = || Aim::Task(task, vec![Command::Agent(proof(), complete())]);
    let done_first = world.order(caller("bob"), done(), request("done", 1)).await.expect("it is");
    assert_eq!(done_first.run, Some(1), "the run that was live");
    let second = world.claim(&solo("bob")).await.expect("the next stage has a run");
    assert_eq!(second.task, task);
    world.reopen();
    for (aim, key) in [(done(), "done"), (Aim::Next(world.wish(&solo("bob"))), "k")] {
        let again = world.order(caller("bob"), aim, request(key, 1)).await.expect("it is known");
        assert_eq!((again.replayed, again.run), (true, Some(1)), "{key}");
        let live = again.task.and_then(|flow| flow.run.as_ref().map(|run| run.number));
        assert_eq!(live, Some(2), "the task has gone on");
    }
}

pub async fn a_repeated_pause_is_answered_although_its_time_is_over(world: &World) {
    let until = Some(world.now() + Millis::minutes(1));
    let pool = PoolName::Stage(project("web"), stage("coding"));
    let shut = || Some(shut(world.now(), until));
    let aim = || Aim::Record(RecordCommand::ShutPool { pool: pool.clone(), shut: shut() }, None);
    let first = world.order(caller("ann"), aim(), request("k", 1)).await.expect("it is new");
    world.wait(Millis::minutes(2)).await;
    let again = world.order(caller("ann"), aim(), request("k", 1)).await.expect("it is known");
    assert_eq!((again.replayed, again.position), (true, first.position));
    let late = world.ask(aim()).await;
    assert!(matches!(late, Err(Refusal::Invalid { .. })), "a new one comes too late: {late:?}");
    let lift = RecordCommand::ShutPool { pool: pool.clone(), shut: None };
    world.record(lift).await;
    world
        .ask(Aim::Record(RecordCommand::RemoveProject, Some(project("web"))))
        .await
        .expect("empty");
    let again = world.order(caller("ann"), aim(), request("k", 1)).await.expect("it is known");
    assert!(again.replayed, "even though the project is gone");
}

pub async fn a_key_used_for_something_else_is_refused(world: &World) {
    world.order(caller("ann"), birth(), request("k", 1)).await.expect("it is new");
    let before = world.dump().await;
    let other = world.order(caller("ann"), birth(), request("k", 2)).await;
    assert!(matches!(other, Err(Error::KeyReused)), "{other:?}");
    assert_same(&before, &world.dump().await, "a key used twice");
}

pub async fn a_key_belongs_to_one_principal_and_one_tenant(world: &World) {
    let acme = world.tenant("acme").await;
    for (who, whose) in [("ann", world), ("bob", world), ("ann", &acme)] {
        let answer = whose.order(caller(who), birth(), request("k", 1)).await;
        assert!(!answer.expect("it is new").replayed, "{who} has not asked {}", whose.tenant);
    }
    assert_eq!((world.all_tasks().await.len(), acme.all_tasks().await.len()), (2, 1));
}

pub async fn a_refused_order_does_not_burn_its_key(world: &World) {
    let refused = world.claim_under("k", &solo("bob")).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::NothingClaimable))), "{refused:?}");
    world.queued().await;
    let claimed = world.claim_under("k", &solo("bob")).await.expect("there is work now");
    assert!(!claimed.replayed);
}

pub async fn an_order_that_changed_nothing_is_known_again(world: &World) {
    let task = world.queued().await;
    let aim = || Aim::Task(task, vec![Command::Person(Person::Publish)]);
    for replayed in [false, true] {
        let answer = world.order(caller("ann"), aim(), request("k", 1)).await;
        let answer = answer.expect("nothing is wrong with it");
        assert_eq!((answer.replayed, answer.position), (replayed, None));
    }
}

pub async fn a_repeated_record_order_is_carried_out_once(world: &World) {
    let pool = PoolName::Stage(project("web"), stage("coding"));
    let command = RecordCommand::LimitPool { pool, limit: Some(1) };
    for replayed in [false, true] {
        let aim = Aim::Record(command.clone(), None);
        let answer = world.order(caller("ann"), aim, request("k", 1)).await;
        let answer = answer.expect("nothing is wrong with it");
        assert_eq!((answer.replayed, answer.position), (replayed, Some(2)));
        assert!(answer.task.is_none());
    }
}

pub async fn a_repeated_claim_shows_its_lease_while_it_lives(world: &World) {
    world.queued().await;
    world.queued().await;
    let first = world.claim_under("k", &solo("bob")).await.expect("there is work");
    let again = world.claim_under("k", &solo("bob")).await.expect("it is known");
    assert!(again.replayed && again.lease.is_some());
    assert_eq!(again.lease, first.lease, "the nonce is that of the first claim");
    assert_eq!(world.row(TaskId(2)).await.lease, None, "nothing else was claimed");
    let aim = vec![Command::Person(Person::Release(text("enough")))];
    world.ask(Aim::Task(TaskId(1), aim)).await.expect("a person may release");
    let parked = world.claim_under("k", &solo("bob")).await.expect("it is known");
    assert_eq!(parked.lease, None, "the lease is gone");
}

pub async fn a_repeated_claim_never_shows_another_lease(world: &World) {
    let task = world.queued().await;
    let release = || Person::Release(text("next"));
    world.claim_under("k", &solo("bob")).await.expect("there is work");
    world.tell(task, release()).await.expect("a person may release");
    world.claim(&solo("eve")).await.expect("it is queued again");
    let stale = world.claim_under("k", &solo("bob")).await.expect("it is known");
    assert_eq!(stale.lease, None, "eve's lease is not bob's to see");
    world.tell(task, release()).await.expect("a person may release");
    let own = world.claim_under("l", &solo("bob")).await.expect("it is queued again");
    assert_eq!(own.lease.map(|lease| lease.attempt), Some(3));
    let stale = world.claim_under("k", &solo("bob")).await.expect("it is known");
    assert_eq!(stale.lease, None, "the claim that is repeated gave attempt 1, not 3");
}

pub async fn of_racing_repeats_one_is_carried_out(world: &World) {
    for round in 0..4 {
        let key = format!("round-{round}");
        let asked: Vec<_> = (0..16)
            .map(|_| {
                let (world, key) = (world.clone(), key.clone());
                tokio::spawn(
                    async move { world.order(caller("ann"), birth(), request(&key, 1)).await },
                )
            })
            .collect();
        let mut fresh = 0;
        for answer in asked {
            let answer = answer.await.expect("no order panics").expect("it is accepted");
            assert_eq!(answer.task.map(|flow| flow.id), Some(TaskId(round + 1)));
            fresh += u32::from(!answer.replayed);
        }
        assert_eq!(fresh, 1);
    }
}

pub async fn a_request_is_known_again_after_a_restart(world: &World) {
    world.make(ready("work")).await;
    let first = world.claim_under("k", &solo("bob")).await.expect("there is work");
    world.reopen();
    let again = world.claim_under("k", &solo("bob")).await.expect("it is known");
    assert_eq!((again.replayed, again.position, again.lease), (true, first.position, first.lease));
    let refused = world.order(caller("bob"), birth(), request("k", 2)).await;
    assert!(matches!(refused, Err(Error::KeyReused)), "{refused:?}");
}

pub async fn a_completion_is_counted_once_however_often_it_is_sent(world: &World) {
    let task = world.queued().await;
    let grip = world.claim(&solo("bob")).await.expect("there is work");
    for replayed in [false, true, true] {
        let aim = Aim::Task(task, vec![Command::Agent(grip.proof(), complete())]);
        let answer = world.order(caller("bob"), aim, request("done", 1)).await;
        assert_eq!(answer.expect("it is accepted").replayed, replayed);
    }
    assert_eq!(world.history(task).await.len(), 2, "one attempt ended, one run finished");
    let renew = vec![Command::Supervisor(grip.proof(), Supervisor::Renew { lease: None })];
    let late = world.ask(Aim::Task(task, renew)).await;
    assert_eq!(late.err(), Some(Refusal::LeaseLost));
}

pub async fn what_a_request_was_for_is_told_to_whoever_asked_it(world: &World) {
    let asked = async |who: &str, key: &str| {
        let who = caller(who).principal;
        world.store().asked_before(&world.tenant, &who, key).await.expect("reading works")
    };
    assert_eq!(asked("ann", "k").await, None);
    world.order(caller("ann"), birth(), request("k", 1)).await.expect("it is new");
    let fingerprint = request("k", 1).expect("it has a key").fingerprint;
    assert_eq!(asked("ann", "k").await, Some(fingerprint));
    assert_eq!(asked("bob", "k").await, None, "a key belongs to one principal");
    assert_eq!(asked("ann", "l").await, None);
}
