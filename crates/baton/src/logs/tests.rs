use super::*;
use crate::views::LogVoice;

fn line(number: u64) -> LogLine {
    let at = "2026-11-15T09:30:00Z".parse().expect("a time");
    LogLine { number, at, voice: LogVoice::Said, text: format!("line {number}") }
}

fn names() -> (TenantId, AttemptId) {
    ("local".parse().expect("a tenant"), "A-1.1".parse().expect("an attempt"))
}

#[tokio::test]
async fn whoever_follows_gets_the_lines_that_its_worker_tells() {
    let (logs, (tenant, attempt)) = (Logs::default(), names());
    let mut asked = logs.listen();
    let worker = async {
        asked.changed().await.expect("somebody asks");
        assert_eq!(logs.take_asked(&tenant, |_| false), [], "it is another worker's");
        assert_eq!(logs.take_asked(&tenant, |own| own == attempt), [(attempt, 0)]);
        assert_eq!(logs.take_asked(&tenant, |_| true), [], "it is asked once");
        logs.put(&tenant, attempt, vec![line(1), line(2)]);
    };
    let (told, ()) = tokio::join!(logs.fresh(&tenant, attempt), worker);
    assert_eq!(told.expect("an answer").len(), 2);
    let again = async {
        asked.changed().await.expect("somebody asks");
        assert_eq!(logs.take_asked(&tenant, |_| true), [(attempt, 2)]);
        logs.put(&tenant, attempt, vec![line(2), line(3)]);
    };
    let (told, ()) = tokio::join!(logs.fresh(&tenant, attempt), again);
    let numbers: Vec<_> = told.expect("an answer").iter().map(|line| line.number).collect();
    assert_eq!(numbers, [1, 2, 3], "no line comes twice");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_not_there_is_not_waited_for_for_long() {
    let (logs, (tenant, attempt)) = (Logs::default(), names());
    assert!(logs.fresh(&tenant, attempt).await.is_none());
}

#[test]
fn what_nobody_asked_for_is_not_remembered_and_old_lines_go() {
    let (logs, (tenant, attempt)) = (Logs::default(), names());
    logs.put(&tenant, attempt, vec![line(1)]);
    drop(logs.ask(&(tenant.clone(), attempt)));
    assert_eq!(logs.take_asked(&tenant, |_| true), [(attempt, 0)]);
    let most = LINES_MAX as u64;
    logs.put(&tenant, attempt, (1..=most + 5).map(line).collect());
    let all = logs.lock();
    let own = &all[&(tenant, attempt)].lines;
    assert_eq!(own.len(), LINES_MAX);
    assert_eq!(own.front().map(|line| line.number), Some(6));
}

#[test]
fn only_so_many_are_followed_at_once() {
    let (logs, (tenant, _)) = (Logs::default(), names());
    for number in 1..=u32::try_from(FOLLOWED_MAX).expect("few") + 3 {
        let attempt = AttemptId { task: "T-1".parse().expect("a task"), number };
        drop(logs.ask(&(tenant.clone(), attempt)));
    }
    let all = logs.lock();
    assert_eq!(all.len(), FOLLOWED_MAX);
    assert!(all.keys().all(|(_, attempt)| attempt.number > 3), "the oldest go first");
}
