//! Projects and pools: what is so already writes nothing, and there are only so many of them.

use baton_domain::limits::{POOLS_MAX, PROJECTS_MAX};
use baton_domain::pool::{Pool, PoolName, Shut, is_eased};
use baton_domain::project::{RecordCommand, RecordEvent, RecordScene, decide_record};
use baton_domain::refusal::Refusal;
use baton_domain::time::{Millis, Timestamp};

use crate::cast::{principal, project, reason, stage, text};
use baton_domain::ids::TaskId;

const NOW: Timestamp = Timestamp(1_000);

fn slots() -> PoolName {
    PoolName::Holder(principal("bob"))
}

fn with(pool: Option<Pool>) -> RecordScene {
    RecordScene { pool, ..RecordScene::default() }
}

fn limited(limit: Option<u64>) -> RecordCommand {
    RecordCommand::LimitPool { pool: slots(), limit }
}

fn shut(since: Timestamp, until: Option<Timestamp>) -> Option<Shut> {
    Some(Shut { reason: reason(), since, until })
}

#[test]
fn a_limit_that_a_pool_has_already_writes_nothing() {
    let set = Pool { limit: Some(3), used: 2, ..Pool::default() };
    let nothing: Result<Vec<RecordEvent>, Refusal> = Ok(vec![]);
    assert_eq!(decide_record(&with(Some(set.clone())), &limited(Some(3)), NOW), nothing);
    assert_eq!(decide_record(&with(None), &limited(None), NOW), nothing, "nobody set it");
    for (pool, limit) in [(Some(set.clone()), Some(4)), (Some(set), None), (None, Some(0))] {
        let event = RecordEvent::PoolLimited { pool: slots(), limit };
        assert_eq!(decide_record(&with(pool), &limited(limit), NOW), Ok(vec![event]));
    }
}

#[test]
fn pausing_again_what_is_paused_so_writes_nothing() {
    let until = Some(NOW + Millis::hours(1));
    let paused = with(Some(Pool { shut: shut(NOW, until), ..Pool::default() }));
    let command = |shut| RecordCommand::ShutPool { pool: slots(), shut };
    let later = NOW + Millis::minutes(1);
    assert_eq!(decide_record(&paused, &command(shut(later, until)), NOW), Ok(vec![]));
    assert_eq!(decide_record(&with(None), &command(None), NOW), Ok(vec![]), "it is open");
    let other = Some(Shut { reason: text("lunch"), since: later, until });
    for changed in [shut(later, None), other, None] {
        let events = decide_record(&paused, &command(changed), NOW).expect("a person may");
        assert_eq!(events.len(), 1);
    }
}

#[test]
fn a_tenant_has_only_so_many_projects_and_pools() {
    let put = RecordCommand::PutProject(project());
    let full = RecordScene { projects: PROJECTS_MAX, pools: POOLS_MAX, ..RecordScene::default() };
    let shut = RecordCommand::ShutPool { pool: slots(), shut: shut(NOW, None) };
    for command in [&put, &limited(Some(1)), &shut] {
        let refused = decide_record(&full, command, NOW).expect_err("there is no place");
        assert!(refused.to_string().contains("as many as a tenant may have"), "{refused}");
        let almost = RecordScene {
            projects: PROJECTS_MAX - 1,
            pools: POOLS_MAX - 1,
            ..RecordScene::default()
        };
        assert!(decide_record(&almost, command, NOW).is_ok());
    }
    let mut changed = project();
    changed.promote = false;
    let known = RecordScene { project: Some(project()), pool: Some(Pool::default()), ..full };
    assert!(decide_record(&known, &RecordCommand::PutProject(changed), NOW).is_ok(), "it is there");
    assert!(decide_record(&known, &limited(Some(1)), NOW).is_ok(), "it is there");
}

#[test]
fn a_pool_is_eased_only_when_it_was_full_or_shut_and_lets_in_again() {
    let pool = |limit, used| Pool { limit: Some(limit), used, ..Pool::default() };
    let paused = Pool { shut: shut(NOW, None), ..pool(2, 1) };
    let column = PoolName::Stage(project().id, stage("coding"));
    let eased = |before: &Pool, after: &Pool| is_eased(&column, Some(before), Some(after), NOW);
    assert!(eased(&pool(2, 2), &pool(2, 1)), "a slot is free");
    assert!(eased(&pool(2, 2), &pool(3, 2)), "it is larger");
    assert!(eased(&paused, &pool(2, 1)), "it is open");
    assert!(!eased(&pool(2, 1), &pool(2, 0)), "there was room before");
    assert!(!eased(&pool(2, 3), &pool(2, 2)), "it is full still");
    assert!(!eased(&paused, &pool(2, 2)), "it is open, and full");
    assert!(!eased(&pool(2, 2), &Pool { shut: shut(NOW, None), ..pool(2, 1) }), "it is shut");
    assert!(is_eased(&column, Some(&pool(2, 2)), None, NOW), "it was forgotten");
    assert!(!is_eased(&column, Some(&pool(2, 1)), None, NOW));
    assert!(!is_eased(&column, None, Some(&pool(2, 1)), NOW), "nothing limited it");
    let money = PoolName::Budget(TaskId(1));
    assert!(is_eased(&money, Some(&pool(100, 50)), Some(&pool(100, 20)), NOW), "more is more");
    assert!(!is_eased(&money, Some(&pool(100, 50)), Some(&pool(100, 50)), NOW));
}
