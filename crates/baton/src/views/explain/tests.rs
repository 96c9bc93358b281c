//! The words for every cause that there is, to be read once by somebody.

use std::collections::BTreeSet;

use baton_domain::explain::{Explained, Hindrance, Remedy};
use baton_domain::ids::{AttemptId, TaskId};
use baton_domain::pool::PoolName;
use baton_domain::run::{Cap, Delay, Purpose, Why};
use baton_domain::task::{Ending, Hold};
use baton_domain::text::{Code, Reason};
use baton_domain::time::{Millis, Timestamp};
use expect_test::expect;

use super::{CauseCode, CauseView};
use crate::health::{Health, Reason as Trouble};
use crate::shape::choices::Word as _;
use crate::shape::{Shape, Shaped as _};

const ON: TaskId = TaskId(7);
const LATER: Timestamp = Timestamp(1_700_000_060_000);

fn name<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is a name"))
}

fn reason() -> Reason {
    Reason::new("reason", "not now").expect("a reason")
}

fn over() -> Vec<Hindrance> {
    let ends = [
        Ending::Done { verified: true },
        Ending::Done { verified: false },
        Ending::Abandoned { reason: reason() },
        Ending::Superseded { by: ON, reason: reason() },
        Ending::Rejected { reason: reason() },
    ];
    let archived = Hindrance::Archived { how: Ending::Done { verified: true } };
    ends.into_iter().map(|how| Hindrance::Ended { how }).chain([archived]).collect()
}

fn parked() -> Vec<Hindrance> {
    let caps = [Cap::Continuations, Cap::Losses, Cap::Tries, Cap::Budget];
    let blocks = [
        Why::NeedsInput,
        Why::Capability { needs: name("gpu") },
        Why::Transient { until: LATER },
        Why::Dependency { on: ON },
    ];
    let limits = caps.into_iter().map(|cap| Why::Limit { cap });
    let delays = [Delay::Scheduled, Delay::Backoff, Delay::RateLimit, Delay::Target];
    let delays = delays.into_iter().map(|why| Hindrance::Delayed { until: LATER, why });
    let blocks = blocks.into_iter().chain(limits).map(|block| Hindrance::Blocked { block });
    blocks.chain(delays).chain([Hindrance::Recurring]).collect()
}

fn held() -> Vec<Hindrance> {
    let attempt = AttemptId { task: TaskId(1), number: 2 };
    let purposes = [Purpose::Work, Purpose::Verify, Purpose::Merge, Purpose::Probe];
    let held = purposes.into_iter().map(|purpose| Hindrance::Held {
        attempt,
        holder: name("ada"),
        purpose,
        until: Some(LATER),
    });
    let alone = [
        Hindrance::WaitingForInput { until: Some(LATER) },
        Hindrance::Verifying,
        Hindrance::Silent,
        Hindrance::Stopping,
        Hindrance::StopUnverified { attempts: BTreeSet::new() },
        Hindrance::StopUnverified { attempts: BTreeSet::from([2]) },
        Hindrance::StopUnverified { attempts: BTreeSet::from([2, 3]) },
    ];
    held.chain(alone).collect()
}

fn pools() -> Vec<PoolName> {
    vec![
        PoolName::Scheduler,
        PoolName::Project(name("shop")),
        PoolName::Stage(name("shop"), name("coding")),
        PoolName::Tree(ON),
        PoolName::Holder(name("ada")),
        PoolName::Key(name("shop"), name("db")),
        PoolName::Role(name("coder")),
        PoolName::Account(name("max")),
        PoolName::Budget(ON),
        PoolName::ProjectBudget(name("shop")),
        PoolName::ProjectDayBudget(name("shop")),
        PoolName::DayBudget,
    ]
}

fn waiting() -> Vec<Hindrance> {
    let pool = PoolName::Stage(name("shop"), name("coding"));
    vec![
        Hindrance::Draft,
        Hindrance::AwaitingApproval,
        Hindrance::Frozen,
        Hindrance::ReviewHold,
        Hindrance::DependencyFailed { on: ON },
        Hindrance::DependencyOpen { on: ON },
        Hindrance::ChildrenUndone { count: 1 },
        Hindrance::ChildrenOpen,
        Hindrance::Backlog,
        Hindrance::Failed { why: Code::new("code", "stuck").expect("a code") },
        Hindrance::Cancelled,
        Hindrance::EndedWithoutResult,
        Hindrance::Paused { pool: pool.clone(), until: Some(LATER) },
        Hindrance::PoolFull { pool, until: None },
        Hindrance::PoolFull { pool: PoolName::DayBudget, until: Some(LATER) },
        Hindrance::AssigneeAbsent { assignee: name("ada") },
        Hindrance::CapabilityMissing { needs: BTreeSet::from([name("gpu"), name("mac")]) },
        Hindrance::PersonStage { stage: name("review") },
        Hindrance::NoWorker,
        Hindrance::NoVerifier,
        Hindrance::HomeAbsent { home: name("build-box") },
        Hindrance::ReviewOpen,
        Hindrance::NoTree,
        Hindrance::Starving,
        Hindrance::Queued,
    ]
}

/// A server that can begin nothing, for several reasons at once.
fn ill() -> Health {
    let (age, behind) = (Millis(9_000), Millis(4_000));
    let seen = [Trouble::SealLate { age }, Trouble::DiskFull];
    let reasons =
        seen.into_iter().chain([Trouble::ClockBehind { behind }, Trouble::SweepLate { age }]);
    Health { reasons: reasons.collect(), ..Health::default() }
}

fn view(hindrance: Hindrance, next: Option<Remedy>) -> CauseView {
    CauseView::of(TaskId(1), &Explained { hindrance, since: None, next })
}

fn line(view: &CauseView) -> String {
    let until = view.until.map_or_else(String::new, |until| format!(" (until {until})"));
    format!("{}: {}{until}\n", view.code.word(), view.sentence)
}

#[test]
fn every_cause_has_its_sentence_and_says_until_when() {
    let all = [over(), parked(), held(), waiting()].concat();
    let views = all.into_iter().map(|hindrance| view(hindrance, None));
    let views: Vec<_> = views.chain(CauseView::of_server(&ill())).collect();
    let Shape::Choice(words) = CauseCode::shape() else { panic!("codes are words") };
    let told: BTreeSet<_> = views.iter().map(|view| view.code.word()).collect();
    assert_eq!(told, words.iter().copied().collect(), "a cause that nobody reads here");
    let lines = views.iter().map(line);
    expect![[r#"
        ended: It has ended: done.
        ended: It has ended: done, unverified.
        ended: It has ended: abandoned (not now).
        ended: It has ended: superseded by T-7 (not now).
        ended: It has ended: rejected (not now).
        archived: It is put away: done.
        blocked: Its run is parked until somebody answers.
        blocked: Its run is parked until somebody takes it who can do gpu.
        blocked: Its run is parked for a while. (until 2023-11-14T22:14:20.000Z)
        blocked: Its run is parked until T-7 is done.
        blocked: Its run is parked: it reached `policy.continuations_max`.
        blocked: Its run is parked: it reached `policy.losses_max`.
        blocked: Its run is parked: it reached `policy.tries_max`.
        blocked: Its run is parked: it reached `pool.limit`.
        delayed: It starts at a time that somebody chose. (until 2023-11-14T22:14:20.000Z)
        delayed: It pauses after a failure. (until 2023-11-14T22:14:20.000Z)
        delayed: It waits for a limit to reset. (until 2023-11-14T22:14:20.000Z)
        delayed: Nobody may move the target branch now: its checkout has changes of its own. (until 2023-11-14T22:14:20.000Z)
        recurring: The same block came back too often: only a person may unpark it.
        held: ada works on it as A-1.2. (until 2023-11-14T22:14:20.000Z)
        held: ada verifies it as A-1.2. (until 2023-11-14T22:14:20.000Z)
        held: ada merges it as A-1.2. (until 2023-11-14T22:14:20.000Z)
        held: ada tries whether its block is gone as A-1.2. (until 2023-11-14T22:14:20.000Z)
        waiting_for_input: Its agent asked something and waits. (until 2023-11-14T22:14:20.000Z)
        verifying: What was submitted is being checked.
        silent: Its holder does nothing but renew its lease.
        stopping: Its attempt is being stopped.
        stop_unverified: A process of its attempt was seen that would not die.
        stop_unverified: Nobody proved that attempt 2 is dead.
        stop_unverified: Nobody proved that attempts 2, 3 are dead.
        draft: It is a draft: nothing happens to it before it is published.
        awaiting_approval: Somebody must agree before it is executed.
        frozen: Somebody put it on ice.
        review_hold: Somebody wants to look at it before it goes on.
        dependency_failed: It waits for T-7, which ended otherwise than done.
        dependency_open: It waits for T-7, which is not done.
        children_undone: All its children have ended, 1 of them otherwise than done.
        children_open: It is done once its children are.
        backlog: It is in the backlog: nobody has begun it.
        failed: Its last run failed: stuck.
        cancelled: Its last run was called off.
        ended_without_result: Its last run ended without a word.
        paused: Somebody paused stage shop coding. (until 2023-11-14T22:14:20.000Z)
        pool_full: The limit of stage shop coding is reached.
        pool_full: The limit of budget day is reached. (until 2023-11-14T22:14:20.000Z)
        assignee_absent: It is for ada alone, who does not wait for work now.
        capability_missing: Nobody who waits for work can do gpu, mac.
        person_stage: People work the stage review.
        no_worker: Nobody waits for such work now.
        no_verifier: Nobody verifies what was submitted.
        home_absent: build-box is the home of its project and alone merges; it is not there.
        review_open: Its commands passed, and nobody has reviewed it.
        no_tree: What was submitted names no tree, so that no worker can check it.
        starving: It has queued for longer than it should.
        queued: Nothing stands in its way: it waits for its turn.
        disk_full: The disk of the server is full: nothing new is begun.
        clock_behind: The clock of the database was set back by 4 s.
        sweep_late: Time does not pass at the server: nothing that is due happens.
    "#]]
    .assert_eq(&lines.collect::<String>());
}

#[test]
fn every_remedy_is_a_command_that_can_be_pasted() {
    let mut remedies = vec![
        Remedy::Publish,
        Remedy::Approve,
        Remedy::Unhold { hold: Hold::Frozen },
        Remedy::Unhold { hold: Hold::Review },
        Remedy::Undepend { on: ON },
        Remedy::Show { task: ON },
        Remedy::Move { to: name("coding") },
        Remedy::Retry,
        Remedy::Close,
        Remedy::Answer,
        Remedy::Unblock,
        Remedy::Release,
        Remedy::Take,
        Remedy::ClearAssignee,
        Remedy::PickUp { needs: name("gpu") },
        Remedy::StartWorker { capabilities: BTreeSet::from([name("gpu")]) },
        Remedy::StartWorker { capabilities: BTreeSet::new() },
        Remedy::StartVerifier,
        Remedy::Review,
        Remedy::Waive,
        Remedy::RaiseLimit { pool: PoolName::Budget(ON) },
    ];
    let caps = [Cap::Continuations, Cap::Losses, Cap::Tries];
    remedies.extend(caps.map(|cap| Remedy::RaiseCap { cap }));
    remedies.extend(pools().into_iter().map(|pool| Remedy::Resume { pool }));
    let commands = remedies.into_iter().map(|next| view(Hindrance::Queued, Some(next)).command);
    let lines = commands.map(|command| command.unwrap_or_else(|| "nothing yet".to_owned()) + "\n");
    expect![[r#"
        baton task publish T-1
        baton task approve T-1
        baton task unfreeze T-1 --reason "…"
        baton task unhold T-1 --reason "…"
        baton task undepend T-1 T-7
        baton explain T-7
        baton task move T-1 --stage coding
        baton run retry T-1 --reason "…"
        baton task close T-1 --reason "…"
        baton answer T-1 "…"
        baton run unblock T-1 --reason "…"
        baton run force-release T-1 --reason "…"
        baton run claim --task T-1
        baton task edit T-1 --clear assignee
        baton run claim --task T-1 --capabilities gpu --blocked
        baton run claim --capabilities gpu
        baton up --detach
        baton work
        baton review T-1 approve "…"
        baton run waive T-1 --reason "…"
        baton pool set "budget T-7" --money …
        baton task edit T-1 --policy '{"continuations_max": …}'
        baton task edit T-1 --policy '{"losses_max": …}'
        baton task edit T-1 --policy '{"tries_max": …}'
        baton scheduler resume
        baton scheduler resume --project shop
        baton scheduler resume --project shop --stage coding
        baton scheduler resume --task T-7
        baton pool list
        baton pool list
        baton pool list
        baton scheduler resume --account max
        baton pool list
        baton pool list
        baton pool list
        baton pool list
    "#]]
    .assert_eq(&lines.collect::<String>());
}
