//! An example of every frame, with every field that it may have: what people read first, and what
//! every test of the frames walks over.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use baton_domain::command::Unfit;
use baton_domain::deadline::Deadline;
use baton_domain::ids::AttemptId;
use baton_domain::policy::Policy;
use baton_domain::project::WorkedBy;
use baton_domain::run::{Cap, Death, Purpose};
use baton_domain::text::Text;

use super::{
    About, Ack, Alive, Answer, Arrived, Ask, Bind, Bound, Bye, Cancel, Caps, Checkpoint,
    Checkpointed, Conversation, Credit, Deadlines, Dispatch, Down, Drain, Exited, Fenced, GateEnd,
    GateResult, Gates, Heartbeat, Hello, Lifecycle, Limit, Listen, Log, LogLine, LogVoice, Lost,
    Merged, Offered, Packet, Permission, Phase, Probed, Question, Released, Renewal, Renewed,
    Resume, Secret, Standing, Stands, Stopped, Ticket, Trouble, Turn, Up, Usage, VERSION, Verdict,
    Welcome, Work,
};
use crate::shape::When;
use crate::views::{ContractLine, HandoffItem, HandoffSection, HandoffView, LineKind, Room};

fn named<T: FromStr>(text: &str) -> T {
    let Ok(value) = text.parse() else { unreachable!("an example is well-formed: {text}") };
    value
}

fn said<const MAX: usize>(text: &str) -> Text<MAX> {
    Text::new("text", text).expect("an example is well-formed")
}

fn attempt() -> AttemptId {
    named("A-128.3")
}

fn at() -> When {
    named("2026-11-15T09:30:00Z")
}

fn token(digit: char) -> Secret {
    Secret::new(format!("batonc_{}", digit.to_string().repeat(24)))
}

/// One of every frame that a worker may send.
#[must_use]
pub fn ups() -> Vec<Up> {
    let mut all = coming();
    all.extend(meeting());
    all.extend(ending());
    all
}

fn coming() -> Vec<Up> {
    let alive = Alive {
        attempt: attempt(),
        token: Some(token('7')),
        last_seq: 41,
        question: Some(said("q-1")),
    };
    vec![
        Hello {
            protocol: VERSION,
            machine: named("build-7"),
            process: Some(said("4f9ad2c1")),
            version: said("0.1.0"),
            deployment: Some(named("d-4fr0azk29lqb")),
            capabilities: Some(BTreeSet::from([named("rust")])),
            slots: 4,
            accounts: Some(vec![named("provider/main")]),
            agents: Some(vec![Offered {
                name: named("claude"),
                account: Some(named("provider/main")),
                capabilities: Some(BTreeSet::from([named("rust")])),
            }]),
            attempts: Some(vec![alive]),
        }
        .into(),
        Credit { n: 3, checks: Some(1), merges: Some(8) }.into(),
        Lifecycle {
            attempt: attempt(),
            seq: 1,
            phase: Phase::TimedOut,
            deadline: Some(Deadline::StreamIdle),
            cap: Some(Cap::Tokens),
            at: Some(at()),
        }
        .into(),
    ]
}

fn meeting() -> Vec<Up> {
    let (attempt, git) = (attempt(), BTreeMap::from([(named("head"), said("4f0c9a1"))]));
    vec![
        Usage {
            attempt,
            seq: 2,
            total_micros: 1_250_000,
            input_tokens: Some(90_210),
            output_tokens: Some(4_120),
            cached_tokens: Some(71_004),
        }
        .into(),
        Limit {
            attempt,
            seq: 3,
            account: named("provider/main"),
            hard: true,
            resets_at: Some(at()),
        }
        .into(),
        Permission { attempt, seq: 4, id: said("p-1"), what: said("run `cargo publish`") }.into(),
        Question { attempt, seq: 5, id: said("q-1"), text: said("Which of the two?") }.into(),
        bind(attempt).into(),
        gates(attempt).into(),
        Checkpoint {
            attempt,
            seq: 7,
            summary: Some(said("Half of it")),
            git,
            session: Some(conversation()),
            work: Some(work()),
            log: Some(digest()),
        }
        .into(),
    ]
}

fn bind(attempt: AttemptId) -> Bind {
    let line = ContractLine {
        id: named("tests"),
        kind: LineKind::Gate,
        path: Some(said("out/report.json")),
        bytes_min: Some(10),
        schema: Some(digest()),
        command: Some(said("make test")),
        timeout: Some(named("20m")),
        text: Some(said("The guide tells of it")),
        check: Some(said("grep -q new docs/guide.md")),
    };
    Bind {
        attempt,
        seq: 6,
        base: Some(named("4f0c9a1be25d7730a8c61f94d3b2e07a5c18f6d9")),
        lines: vec![line],
        protected: Some(vec![said("baton.toml")]),
        wrong: Some(said("baton.toml: `contract.gates.tests.timeout` must be 1 s to 24 h")),
    }
}

fn gates(attempt: AttemptId) -> Gates {
    let result = GateResult {
        line: named("tests"),
        ended: GateEnd::Exited,
        code: Some(1),
        why: Some(said("there is no such folder")),
        took_ms: 61_204,
        log: Some(digest()),
        dropped_bytes: Some(70_112),
        tail: Some(said("2 tests failed")),
    };
    Gates {
        attempt,
        seq: 6,
        commit: Some(named("9c41f0d2b7a6e58301cd4492be7f60a1538dd2e7")),
        environment: digest(),
        results: vec![result],
        guarded: Some(vec![said("baton.toml")]),
    }
}

fn asks() -> Vec<Ask> {
    vec![Ask { line: named("tests"), command: said("make test"), timeout_ms: 1_200_000 }]
}

fn conversation() -> Conversation {
    Conversation {
        program: said("claude"),
        id: said("5d2e7c1a-9b40-4f6e-8a53-0c1f2e3d4b5a"),
        input_tokens: 90_210,
        output_tokens: 4_120,
        cached_tokens: 71_004,
        cost_micros: 1_250_000,
    }
}

fn work() -> Work {
    Work {
        attempt: 3,
        number: 12,
        snapshot: said("9c41f0d2b7a6e58301cd4492be7f60a1538dd2e7"),
        base: said("4f0c9a1be25d7730a8c61f94d3b2e07a5c18f6d9"),
        bundles: vec![digest()],
        base_bundles: vec![digest()],
    }
}

fn digest() -> baton_domain::ids::Digest {
    baton_domain::ids::Digest::new(&"e3".repeat(32)).expect("64 hex digits are a digest")
}

fn log_line() -> LogLine {
    LogLine { number: 4, at: at(), voice: LogVoice::Said, text: "The tests pass.".to_owned() }
}

fn ending() -> Vec<Up> {
    let attempt = attempt();
    vec![
        Exited { attempt, seq: 8, status: Some(0), signal: Some(9) }.into(),
        Stopped { attempt, seq: 9, death: Death::PidNamespace, survivor: false }.into(),
        Lost { attempt, seq: 10, code: said("spawn_failed"), reason: said("no more memory") }
            .into(),
        Released { attempt, seq: 11, reason: said("the account is exhausted"), until: Some(at()) }
            .into(),
        Probed { attempt, seq: 12, met: true }.into(),
        Merged {
            attempt,
            seq: 13,
            how: Arrived::Unfit,
            commit: None,
            onto: Some(said("refs/heads/main")),
            unfit: Some(Unfit::Conflict),
            reason: Some(said("both change src/lib.rs")),
        }
        .into(),
        Heartbeat { attempts: vec![attempt] }.into(),
        Log { attempt, lines: vec![log_line()] }.into(),
        Bye { reason: Some(said("the machine goes down")) }.into(),
    ]
}

/// One of every frame that a server may send.
#[must_use]
pub fn downs() -> Vec<Down> {
    let attempt = attempt();
    let resume = Resume {
        attempt,
        applied_seq: 38,
        lease_ms: Some(300_000),
        stop: Some(Verdict::Cancelled),
        fenced: Some(said("lease_lost")),
        stands: Some(Standing::Working),
    };
    let about = About { frame: Some(said("gates")), attempt: Some(attempt), seq: Some(6) };
    vec![
        Welcome {
            protocol: VERSION,
            server: said("0.1.0"),
            deployment: named("d-4fr0azk29lqb"),
            tenant: Some(named("local")),
            incarnation: said("5f3a"),
            heartbeat_ms: 20_000,
            resume: vec![resume],
        }
        .into(),
        dispatch(attempt).into(),
        Ack { attempt, seq: 41 }.into(),
        Renewed { leases: vec![Renewal { attempt, lease_ms: 300_000 }] }.into(),
        Fenced { attempt, code: said("lease_lost") }.into(),
        Answer { attempt, id: said("q-1"), text: said("The second one") }.into(),
        Cancel { attempt, why: Verdict::Cancelled }.into(),
        Stands { attempt, how: Standing::Verifying, asks: Some(asks()) }.into(),
        Bound { attempt }.into(),
        Checkpointed { attempt }.into(),
        Listen { attempt, after: 3 }.into(),
        Drain { until: Some(at()) }.into(),
        Trouble {
            code: said("invalid"),
            detail: said("`results` names a line twice"),
            field: Some(said("results")),
            about: Some(about),
        }
        .into(),
    ]
}

fn dispatch(attempt: AttemptId) -> Dispatch {
    let goal = HandoffItem::new("ada", "asked for").at(at()).quoting("Let readers follow.");
    let goal = HandoffSection::of(Room::GOAL, vec![goal], 0);
    let run = named("R-128.2");
    Dispatch {
        attempt,
        run,
        project: named("shop"),
        root: Some(said("/srv/shop")),
        stage: named("coding"),
        worked_by: WorkedBy::Agent,
        needs: Some([named("rust")].into()),
        purpose: Purpose::Work,
        turn: Turn::Continue,
        lease_ms: 300_000,
        deadlines: Deadlines::of(&Policy::default()),
        caps: Some(Caps::of(&Policy::default())),
        account: Some(named("provider/main")),
        session: Some(conversation()),
        work: Some(work()),
        head: Some(named("9c41f0d2b7a6e58301cd4492be7f60a1538dd2e7")),
        landing: Some(Ticket {
            target: Some(said("main")),
            subject: said("feat: Let readers follow (T-128)"),
            push: Some(said("origin")),
        }),
        asks: Some(asks()),
        token: token('7'),
        agent_token: token('9'),
        env: Some(BTreeMap::from([("BATON_PROJECT".to_owned(), said("shop"))])),
        packet: Packet(HandoffView::of(run, goal.into_iter().collect())),
    }
}
