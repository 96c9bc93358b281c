//! A flow stays small at every bound that is documented, so that the hot row stays one page.

use std::collections::{BTreeMap, BTreeSet};

use baton_domain::command::{NewTask, Person, Supervisor};
use baton_domain::contract::{ContractMark, SubmissionMark};
use baton_domain::deadline::{Armed, Deadline, Sight};
use baton_domain::event::Event;
use baton_domain::ids::{
    Account, Capability, Commit, ConcurrencyKey, NAME_BYTES_MAX, PrincipalId, ProjectId,
    SHORT_NAME_BYTES_MAX, StageName, TASK_NUMBER_MAX, TaskId,
};
use baton_domain::lane::{Claimant, Lane, Offer, Sort};
use baton_domain::limits::{
    BUDGET_MICROS_MAX, CALLS_MAX, CAPABILITIES_MAX, CHECKPOINTS_MAX, DEPENDENCIES_MAX, DEPTH_MAX,
    FLOW_BYTES_MAX, LATE_ATTEMPTS_MAX, LINEAGE_MAX, SPAN_MAX, STAGES_MAX, TRAIL_MAX, UNPROVEN_MAX,
};
use baton_domain::pace::Pace;
use baton_domain::policy::Policy;
use baton_domain::pool::{PoolName, Take};
use baton_domain::project::WorkedBy;
use baton_domain::run::{
    Answer, Block, BlockKind, Fault, Finish, Finished, Held, Mark, Mode, Outcome, Phase, Progress,
    Purpose, Question, Run, RunResult, RunState, Tally, Why,
};
use baton_domain::task::{
    Approval, Ending, Flow, Holds, Kind, Owed, Priority, Recurrence, Stage, Wait,
};
use baton_domain::text::{Code, Reason};
use baton_domain::time::{Millis, Timestamp};
use baton_domain::trail::{Ended, Keys, Trail};

use crate::cast::{capable, contracted, digest, solo, story, text, world};

/// Far in the future, and as many digits as a time has until then.
const LATE: Timestamp = Timestamp(9_999_999_999_999);

fn name(nth: usize) -> String {
    format!("{nth:0>width$}", width = NAME_BYTES_MAX)
}

fn short(nth: usize) -> String {
    format!("{nth:0>width$}", width = SHORT_NAME_BYTES_MAX)
}

fn task(nth: u64) -> TaskId {
    TaskId(TASK_NUMBER_MAX - nth)
}

fn ancestors() -> Vec<TaskId> {
    (0..DEPTH_MAX as u64).map(|nth| task(nth + 100)).collect()
}

fn project() -> ProjectId {
    ProjectId::new(&name(1)).expect("a name at the bound")
}

fn stage() -> StageName {
    stage_of(2)
}

fn stage_of(nth: usize) -> StageName {
    StageName::new(&short(nth)).expect("a name at the bound")
}

fn capability(nth: usize) -> Capability {
    Capability::new(&short(nth)).expect("a name at the bound")
}

fn key() -> ConcurrencyKey {
    ConcurrencyKey::new(&name(3)).expect("a name at the bound")
}

fn holder() -> PrincipalId {
    PrincipalId::new(&name(4)).expect("a name at the bound")
}

/// Nothing is at its default, so that nothing is left out.
fn policy() -> Policy {
    let day = Millis::hours(24);
    let policy = Policy {
        attempts_max: 10,
        continuations_max: 50,
        losses_max: 100,
        tries_max: 500,
        stalls_max: 50,
        setbacks_max: 10,
        turns_max: 1_000_000_000,
        tool_calls_max: 1_000_000_000,
        tokens_max: CALLS_MAX,
        backoff: day,
        backoff_max: day,
        lease: day,
        wall: SPAN_MAX,
        input: SPAN_MAX,
        starved: SPAN_MAX,
        budget_micros: BUDGET_MICROS_MAX,
    };
    policy.check().expect("every number is at its bound");
    policy
}

fn base() -> Flow {
    let kinds = [
        BlockKind::NeedsInput,
        BlockKind::Capability,
        BlockKind::Transient,
        BlockKind::Dependency,
        BlockKind::Limit,
    ];
    let seen = Recurrence { cleared: false, count: u8::MAX };
    Flow {
        id: task(0),
        version: u64::from(u32::MAX),
        project: project(),
        creator: holder(),
        creator_task: Some(task(1)),
        ancestors: ancestors(),
        kind: Kind::Refactor,
        priority: Priority::Normal,
        draft: false,
        approval: Approval::Approved,
        stage: Stage::Working(stage()),
        holds: Holds { frozen: true, review: true },
        waits_for: (0..DEPENDENCIES_MAX as u64).map(|nth| (task(nth), Wait::Failed)).collect(),
        dependencies: u8::MAX,
        assignee: Some(holder()),
        capabilities: (0..CAPABILITIES_MAX).map(capability).collect(),
        key: Some(key()),
        policy: policy(),
        contract: Some(ContractMark { hash: digest(), lines: u16::MAX, bound: u16::MAX }),
        run: None,
        last: Some(Finished {
            number: u32::MAX,
            stage: stage(),
            depth: LINEAGE_MAX,
            finish: Finish::Failed { code: worst_code() },
            result: Some(RunResult::Unverified),
            silent_end: true,
            submitted: Some(u64::from(u32::MAX)),
        }),
        head: Some(Commit::new(&"c".repeat(64)).expect("64 hex digits are a commit")),
        runs: u32::MAX,
        attempts: u32::MAX,
        checkpoints: u32::MAX,
        recurrence: kinds.into_iter().map(|kind| (kind, seen)).collect::<BTreeMap<_, _>>(),
        owed: None,
        setbacks: (0..STAGES_MAX).map(|nth| (stage_of(nth), u8::MAX)).collect(),
        undone: u8::MAX,
        settled: (0..LATE_ATTEMPTS_MAX)
            .map(|nth| (u32::MAX - nth, BUDGET_MICROS_MAX))
            .collect::<BTreeMap<_, _>>(),
        unproven: (0..UNPROVEN_MAX)
            .map(|nth| u32::MAX - u32::try_from(nth).expect("few"))
            .collect::<BTreeSet<_>>(),
        generation: u32::MAX,
        doubted: true,
        created_at: LATE,
        ended_at: None,
    }
}

fn takes() -> Vec<Take> {
    let lane = Lane {
        project: project(),
        stage: stage(),
        sort: Sort::Ready,
        priority: Priority::Low,
        capabilities: BTreeSet::new(),
        assignee: None,
        ancestors: ancestors(),
        key: Some(key()),
        budget_micros: BUDGET_MICROS_MAX,
    };
    let account = Account::new(&name(5)).expect("a name at the bound");
    let agents = vec![Offer { role: capability(6), capabilities: BTreeSet::new() }];
    let claimant = Claimant { principal: holder(), account: Some(account), agents, ..solo() };
    let own = Take { pool: PoolName::Budget(task(0)), amount: BUDGET_MICROS_MAX };
    lane.takes(&claimant).into_iter().chain([own]).collect()
}

fn block() -> Block {
    Block {
        why: Why::Capability { needs: capability(7) },
        at: LATE,
        raised: u64::from(u32::MAX),
        sticky: true,
        condition: true,
        // Only a run that is parked by the rules has one, and nobody picks that up.
        submission: None,
    }
}

fn trail() -> Trail {
    let keys = || Keys { last: vec![u64::from(u32::MAX); TRAIL_MAX], count: u32::MAX };
    let ended = [
        Ended::Completed,
        Ended::Failed,
        Ended::Blocked,
        Ended::Released,
        Ended::TimedOut,
        Ended::Lost,
        Ended::Cancelled,
        Ended::EndedWithoutResult,
    ];
    Trail {
        talk: keys(),
        reports: keys(),
        submitted: Some(u64::from(u32::MAX)),
        verified: Some(u64::from(u32::MAX)),
        ended: ended.into_iter().map(|word| (word, u32::from(u16::MAX))).collect(),
    }
}

fn held(phase: Phase, armed: Armed, submission: Option<SubmissionMark>) -> Run {
    let held = Held {
        attempt: u32::MAX,
        holder: holder(),
        mode: Mode::Supervised,
        purpose: Purpose::Verify,
        phase,
        claimed_at: LATE,
        active_at: LATE,
        picked: Some(block()),
        submission,
        takes: takes(),
        armed,
        effects: true,
        moved: true,
        rounds: 3,
        spent_micros: BUDGET_MICROS_MAX,
        pace: Pace(u32::MAX, u16::MAX),
    };
    Run {
        number: u32::MAX,
        stage: stage(),
        previous: Some(u32::MAX),
        depth: LINEAGE_MAX,
        opened_at: LATE,
        ready_at: LATE,
        state: RunState::Held(held),
        tally: Tally { faults: 10, continuations: 50, losses: 100, tries: 500, stalls: 50 },
        answer: Some(Answer { given: u64::from(u32::MAX), mark: Mark::Delivered }),
        progress: Progress { done: u32::MAX, failed: u32::MAX },
        checkpoints: CHECKPOINTS_MAX,
        starved: true,
        trail: trail(),
        worked_by: WorkedBy::Person,
        author: Some(holder()),
        rejections: 3,
    }
}

/// Every phase with whatever may be armed in it.
fn held_runs() -> Vec<Run> {
    let policy = policy();
    let fresh = Armed::at_claim(&policy, Mode::Supervised, Purpose::Work, LATE);
    let mut streaming = fresh.clone();
    streaming.see(Sight::PromptWritten, &policy, LATE);
    streaming.see(Sight::FirstEvent, &policy, LATE);
    let only = |deadline| {
        let mut armed = fresh.clone();
        armed.only(deadline, &policy, LATE);
        armed
    };
    let cleanup = only(Some(Deadline::Cleanup));
    let stopping =
        |verdict| Phase::Stopping { verdict, survivor: false, raised: u64::from(u32::MAX) };
    let submission = Some(SubmissionMark {
        raised: u64::from(u32::MAX),
        attempt: u32::MAX,
        tree: true,
        review: true,
    });
    let question = Question { raised: u64::from(u32::MAX), asked_at: LATE };
    let blocked = Outcome::Blocked { block: block(), answered: false };
    let failed = Outcome::Failed { code: worst_code(), fault: Fault::Infrastructure };
    vec![
        held(Phase::Working, streaming, None),
        held(Phase::WaitingInput(question), only(Some(Deadline::UserInput)), None),
        held(Phase::Verifying { exited: false }, only(None), submission),
        held(stopping(blocked), cleanup.clone(), None),
        held(stopping(failed), cleanup.clone(), submission),
        held(stopping(Outcome::Released { until: Some(LATE) }), cleanup, submission),
    ]
}

fn worst_code() -> Code {
    text(&"\"".repeat(32))
}

/// A reason that is as long as text as it can be.
fn superseded() -> Ending {
    Ending::Superseded { by: task(2), reason: text(&"\"".repeat(2_048)) }.kept()
}

fn bytes(flow: &Flow) -> usize {
    serde_json::to_string(flow).expect("a flow is text").len()
}

#[test]
fn a_flow_with_everything_at_its_bound_fits_into_its_row() {
    let owed = Some(Owed::Close(superseded()));
    let held = held_runs().into_iter().map(|run| {
        let flow = Flow { run: Some(run), owed: owed.clone(), ..base() };
        (flow.run.as_ref().map_or("none", |run| run.word()), bytes(&flow))
    });
    let ended = Flow { stage: Stage::Archived(superseded()), ended_at: Some(LATE), ..base() };
    let worst = held.chain([("ended", bytes(&ended))]).max_by_key(|(_, bytes)| *bytes);
    let (word, bytes) = worst.expect("there are phases");
    assert!(bytes <= FLOW_BYTES_MAX, "{word}: {bytes} bytes");
}

#[test]
fn an_everyday_flow_is_a_fifth_of_that() {
    let mut world = world();
    let depends_on = BTreeSet::from([world.made(story()), world.made(story())]);
    let parent = world.made(NewTask { kind: Kind::Epic, ..story() });
    let capabilities = BTreeSet::from([crate::cast::capability("gpu")]);
    let task = NewTask { parent: Some(parent), capabilities, depends_on, ..contracted() };
    let id = world.made(task);
    for on in [1, 2] {
        let no_more = Person::Depend { on: TaskId(on), wait: false };
        world.person(id, no_more).expect("a person may");
    }
    world.claim(id, capable()).expect("it is queued");
    world.supervisor(id, Supervisor::Report(Sight::FirstEvent)).expect("it is held");
    assert!(bytes(world.flow(id)) * 5 <= FLOW_BYTES_MAX, "{}", bytes(world.flow(id)));
}

#[test]
fn a_long_reason_for_closing_is_whole_in_the_entry_and_cut_in_the_flow() {
    let mut world = world();
    let id = world.made(story());
    let reason: Reason = text(&"ä".repeat(1_024));
    let ending = Ending::Abandoned { reason: reason.clone() };
    world.person(id, Person::Close(ending.clone())).expect("a person may");
    let told = world.entries[&id].last().expect("it was closed").events.clone();
    assert_eq!(told, vec![Event::Ended { ending }]);
    let kept = text(&"ä".repeat(48));
    assert_eq!(world.flow(id).ending(), Some(&Ending::Abandoned { reason: kept }));
}
