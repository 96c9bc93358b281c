//! Courses in simulated time. Nothing sleeps and nothing reads a clock: a rig plays the agent, its shim, the server and
//! a person, and may take the worker away at any step and bring another one.

use std::collections::BTreeMap;

use baton_domain::policy::Policy;
use baton_domain::run::{Death, Purpose};
use baton_domain::text::Text;
use baton_domain::time::Timestamp;

use super::{Act, At, Course, Input, Report, Said, Terms, Told};
use crate::adapters::{Consent, Reply, Seen};
use crate::protocol::{Caps, Deadlines, Phase, Standing, Verdict};
use crate::shim::{Exit, Proof};

pub(super) use sights::{
    asked, exited, failed, fence, finished, limit, spoke, tool, tool_ended, used,
};

mod back;
mod courses;
mod deadlines;
mod edges;
mod guide;
mod laws;
mod sights;

/// When every attempt here is dispatched: not at zero, so that a time that was never set shows.
pub(super) const DAWN: At = At(1_000_000);
pub(super) const SECOND: u64 = 1_000;
pub(super) const MINUTE: u64 = 60 * SECOND;
/// Nothing of a simulated attempt takes longer.
const STEPS_MAX: usize = 50_000;

/// The world around a course.
pub(super) struct Rig {
    pub(super) course: Course,
    terms: Terms,
    pub(super) now: At,
    queue: BTreeMap<(At, u64), Thing>,
    count: u64,
    spool: Vec<(Input, At)>,
    told: Told,
    pub(super) acts: Vec<(At, Act)>,
    pub(super) agent: Agent,
    server: Server,
    steps: usize,
    leave: Option<Leave>,
    away_until: Option<At>,
    /// How much was done when it was fenced.
    pub(super) fenced_after: Option<usize>,
}

/// When the worker goes, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leave {
    /// After which of its steps.
    pub(super) step: usize,
    /// After so many of the acts of that step.
    pub(super) acts: usize,
    pub(super) millis: u64,
}

/// How the agent and its tree behave.
pub(super) struct Agent {
    alive: bool,
    dying: bool,
    /// What it does when it is told something more; none if its program takes no more turns.
    pub(super) on_prompt: Option<Vec<(u64, Seen)>>,
    /// How long it takes to die.
    pub(super) dies_after: u64,
    pub(super) proof: Proof,
}

struct Server {
    is_there: bool,
    holds: bool,
    stopping: bool,
    standing: Standing,
    /// What a person says to whatever is asked, and after how long.
    person: Option<(u64, &'static str)>,
    question: Option<Text<64>>,
    answer: Option<String>,
    cause: Option<String>,
}

/// What is going to happen.
enum Thing {
    /// To the agent: it is in the spool, whether a worker looks or not.
    Spooled(Input),
    /// To the worker alone.
    Worker(Input),
    /// The agent says by Baton's tools that it is done.
    Completes,
    /// It asks a person by Baton's tools.
    Asks,
    /// The person answers.
    Answers,
    /// The server goes, or comes back.
    Link(bool),
}

pub(super) fn terms() -> Terms {
    let policy = Policy::default();
    Terms {
        deadlines: Deadlines::of(&policy),
        caps: Caps::of(&policy),
        grace_ms: 2 * SECOND,
        consent: Consent::Ask,
        snapshot_every_ms: MINUTE,
        purpose: Purpose::Work,
        account: Some("provider/main".parse().expect("a name")),
        program: Some("claude"),
        conversation: None,
    }
}

impl Rig {
    pub(super) fn new(terms: Terms) -> Self {
        let course = Course::new("A-7.3".parse().expect("an id"), terms.clone(), DAWN);
        Self {
            course,
            terms,
            now: DAWN,
            queue: BTreeMap::new(),
            count: 0,
            spool: vec![],
            told: Told::default(),
            acts: vec![],
            agent: Agent {
                alive: false,
                dying: false,
                on_prompt: Some(vec![]),
                dies_after: 50,
                proof: Proof { death: Death::PidNamespace, survivor: false },
            },
            server: Server {
                is_there: true,
                holds: true,
                stopping: false,
                standing: Standing::Working,
                person: None,
                question: None,
                answer: None,
                cause: None,
            },
            steps: 0,
            leave: None,
            away_until: None,
            fenced_after: None,
        }
    }

    /// An agent that runs and was told what to do a second after the dispatch.
    pub(super) fn prompted(terms: Terms) -> Self {
        let mut rig = Self::new(terms);
        rig.spooled(500, Input::Prepared);
        rig.spooled(900, Input::Launched);
        rig.spooled(SECOND, Input::PromptWritten);
        rig
    }

    pub(super) fn leaving(mut self, leave: Leave) -> Self {
        self.leave = Some(leave);
        self
    }

    pub(super) fn with_person(mut self, after: u64, answer: &'static str) -> Self {
        self.server.person = Some((after, answer));
        self
    }

    /// So many milliseconds after the dispatch this happens to the agent.
    pub(super) fn spooled(&mut self, millis: u64, input: Input) {
        self.schedule(DAWN.plus(millis), Thing::Spooled(input));
    }

    pub(super) fn sees(&mut self, millis: u64, seen: Seen) {
        self.spooled(millis, Input::Seen(seen));
    }

    pub(super) fn worker(&mut self, millis: u64, input: Input) {
        self.schedule(DAWN.plus(millis), Thing::Worker(input));
    }

    pub(super) fn completes(&mut self, millis: u64) {
        self.schedule(DAWN.plus(millis), Thing::Completes);
    }

    pub(super) fn asks(&mut self, millis: u64) {
        self.schedule(DAWN.plus(millis), Thing::Asks);
    }

    pub(super) fn link(&mut self, millis: u64, is_there: bool) {
        self.schedule(DAWN.plus(millis), Thing::Link(is_there));
    }

    fn schedule(&mut self, at: At, thing: Thing) {
        self.count += 1;
        self.queue.insert((at.max(self.now), self.count), thing);
    }

    fn soon(&mut self, millis: u64, thing: Thing) {
        self.schedule(self.now.plus(millis), thing);
    }

    /// Lets everything happen until the course is over or this much time has passed since the dispatch.
    pub(super) fn run(&mut self, millis: u64) -> &mut Self {
        let end = DAWN.plus(millis);
        while !self.is_over() {
            assert!(self.steps < STEPS_MAX, "it never comes to an end: {}", self.log());
            let thing = self.queue.keys().next().map(|(at, _)| *at);
            let due = match self.away_until {
                Some(back) => Some(back),
                None => self.course.due(),
            };
            let Some(next) = thing.into_iter().chain(due).min().filter(|next| *next <= end) else {
                self.now = end;
                break;
            };
            self.now = next.max(self.now);
            if thing == Some(next) {
                let (_, thing) = self.queue.pop_first().expect("something is to happen");
                self.happen(thing);
            } else if self.away_until.is_some() {
                self.come_back();
            } else {
                self.feed(Input::Tick);
                let due = self.course.due();
                assert!(due.is_none_or(|due| due > self.now), "a tick leaves nothing due");
            }
        }
        self
    }

    fn happen(&mut self, thing: Thing) {
        match thing {
            Thing::Spooled(input) => {
                let of_agent = matches!(input, Input::Seen(_) | Input::PromptWritten);
                if (of_agent || matches!(input, Input::Exited(_))) && !self.agent.alive {
                    return;
                }
                let begins = matches!(input, Input::Prepared | Input::Launched);
                if begins && self.agent.dying {
                    // Whoever was told to stop before it began never begins.
                    return;
                }
                self.agent.alive |= input == Input::Launched;
                if matches!(input, Input::Exited(_)) {
                    self.agent.alive = false;
                    if !std::mem::replace(&mut self.agent.dying, true) {
                        let proof = self.agent.proof;
                        self.soon(50, Thing::Spooled(Input::Stopped(proof)));
                    }
                }
                self.spool.push((input.clone(), self.now));
                self.feed(input);
            }
            Thing::Worker(input) => self.feed(input),
            Thing::Completes => {
                if self.server.holds && !self.server.stopping {
                    self.server.stopping = true;
                    self.server.cause = Some("completed".to_owned());
                    self.say(20, Said::Cancel(Verdict::Completed));
                }
            }
            Thing::Asks => {
                self.server.standing = Standing::Waiting;
                self.say(20, Said::Stands(Standing::Waiting));
                if let Some((after, _)) = self.server.person {
                    self.soon(after, Thing::Answers);
                }
            }
            Thing::Answers => {
                if self.server.stopping || !self.server.holds {
                    return;
                }
                self.server.standing = Standing::Working;
                self.say(5, Said::Stands(Standing::Working));
                if let (Some(id), Some((_, text))) = (&self.server.question, self.server.person) {
                    let answer = Said::Answer { id: id.to_string(), text: text.to_owned() };
                    self.server.answer = Some(text.to_owned());
                    self.say(6, answer);
                }
            }
            Thing::Link(is_there) => {
                self.server.is_there = is_there;
                if is_there { self.resume() } else { self.feed(Input::Cut) }
            }
        }
    }

    fn say(&mut self, millis: u64, said: Said) {
        self.soon(millis, Thing::Worker(Input::Said(said)));
    }

    fn feed(&mut self, input: Input) {
        let unheard = matches!(input, Input::Said(_)) && !self.server.is_there;
        if self.away_until.is_some() || unheard {
            return;
        }
        if matches!(input, Input::Said(Said::Fenced(_))) {
            self.fenced_after.get_or_insert(self.acts.len());
        }
        let acts = self.course.step(input, self.now);
        self.steps += 1;
        let leave = self.leave.filter(|leave| leave.step == self.steps);
        let count = leave.map_or(acts.len(), |leave| leave.acts.min(acts.len()));
        let cut = count < acts.len();
        for act in acts.into_iter().take(count) {
            self.perform(act);
        }
        if let Some(leave) = leave
            && (cut || !self.is_over())
        {
            self.away_until = Some(self.now.plus(leave.millis));
        }
    }

    /// Another worker comes: it has the spool, and what was told.
    fn come_back(&mut self) {
        self.away_until = None;
        let (attempt, told) = (self.course.attempt(), self.told.clone());
        self.course = Course::returning(attempt, self.terms.clone(), told, DAWN);
        for (input, at) in self.spool.clone() {
            assert_eq!(
                self.course.step(input, at),
                vec![],
                "nothing is done while it is fed again"
            );
        }
        self.feed(Input::Back);
        self.resume();
    }

    /// The server is there again, and says how the attempt stands.
    fn resume(&mut self) {
        if !self.server.is_there || self.is_over() {
            return;
        }
        if !self.server.holds {
            let code = Text::new("code", "lease_lost").expect("a word");
            return self.say(10, Said::Fenced(code));
        }
        if self.server.stopping {
            return self.say(10, Said::Cancel(Verdict::Completed));
        }
        self.say(10, Said::Stands(self.server.standing));
        if let (Some(id), Some(text)) = (self.server.question.clone(), self.server.answer.clone()) {
            self.say(11, Said::Answer { id: id.to_string(), text });
        }
        self.soon(12, Thing::Worker(Input::Renewed { until: self.now.plus(200_000) }));
    }

    fn perform(&mut self, act: Act) {
        self.acts.push((self.now, act.clone()));
        match act {
            Act::Tell(report) => {
                self.told.take(&report.clone().frame(self.course.attempt(), Timestamp(0)));
                self.hear(&report);
            }
            Act::Say(reply) => self.reply(&reply),
            Act::Prompt(_) => match self.agent.on_prompt.clone() {
                None => self.soon(1, Thing::Worker(Input::Deaf)),
                Some(then) => {
                    for (millis, seen) in then {
                        self.soon(millis, Thing::Spooled(Input::Seen(seen)));
                    }
                }
            },
            Act::Stop { grace_ms } => {
                let after = self.agent.dies_after.min(grace_ms + 50);
                if self.agent.alive {
                    self.soon(after, Thing::Spooled(Input::Exited(Exit::Signal(9))));
                } else if !std::mem::replace(&mut self.agent.dying, true) {
                    let proof = Proof { death: Death::NotStarted, survivor: false };
                    self.soon(after, Thing::Spooled(Input::Stopped(proof)));
                }
            }
            Act::Snapshot(_) => self.soon(100, Thing::Worker(Input::Kept)),
            Act::Interrupt | Act::Renew { .. } | Act::Quarantine | Act::Lift | Act::Over => {}
        }
    }

    fn reply(&mut self, reply: &Reply) {
        let id = reply.id().to_owned();
        self.soon(20, Thing::Spooled(Input::Seen(Seen::Settled { id })));
    }

    fn hear(&mut self, report: &Report) {
        let server = &mut self.server;
        match report {
            Report::Question { id, .. } | Report::Permission { id, .. } => {
                server.question = Some(id.clone());
                server.standing = Standing::Waiting;
                self.say(5, Said::Stands(Standing::Waiting));
                if let Some((after, _)) = self.server.person {
                    self.soon(after, Thing::Answers);
                }
            }
            Report::Phase(Phase::InputReceived) => (server.question, server.answer) = (None, None),
            Report::Phase(Phase::InputWithdrawn) => {
                (server.question, server.answer) = (None, None);
                if server.standing == Standing::Waiting {
                    server.standing = Standing::Working;
                    self.say(5, Said::Stands(Standing::Working));
                }
            }
            Report::Stopped(proof) if !proof.survivor => {
                server.holds = false;
                server.cause.get_or_insert("ended_without_result".to_owned());
            }
            Report::TimedOut(_)
            | Report::Exceeded(_)
            | Report::Exited(_)
            | Report::Lost { .. }
            | Report::Released { .. }
            | Report::Probed { .. } => {
                let first = !std::mem::replace(&mut server.stopping, true);
                if first {
                    server.cause = Some(cause(report));
                    self.say(5, Said::Cancel(Verdict::Failed));
                }
            }
            Report::Phase(_) | Report::Used(_) | Report::Limited { .. } | Report::Stopped(_) => {}
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.acts.last().is_some_and(|(_, act)| *act == Act::Over)
    }

    /// What counts at the server, once it is over.
    pub(super) fn verdict(&self) -> &str {
        self.server.cause.as_deref().unwrap_or("none")
    }

    pub(super) fn steps(&self) -> usize {
        self.steps
    }

    /// When this was done for the first time, since the dispatch.
    pub(super) fn when(&self, is: impl Fn(&Act) -> bool) -> Option<u64> {
        self.acts.iter().find(|(_, act)| is(act)).map(|(at, _)| at.since(DAWN))
    }

    pub(super) fn count(&self, is: impl Fn(&Act) -> bool) -> usize {
        self.acts.iter().filter(|(_, act)| is(act)).count()
    }

    pub(super) fn told(&self, is: impl Fn(&Report) -> bool) -> usize {
        self.reports().filter(|report| is(report)).count()
    }

    pub(super) fn reports(&self) -> impl DoubleEndedIterator<Item = &Report> {
        self.acts.iter().filter_map(|(_, act)| report(act))
    }

    /// Everything that was done, for whoever reads a failure.
    pub(super) fn log(&self) -> String {
        let line = |(at, act): &(At, Act)| format!("\n{:>9} {act:?}", at.since(DAWN));
        self.acts.iter().map(line).collect()
    }
}

pub(super) fn report(act: &Act) -> Option<&Report> {
    if let Act::Tell(report) = act { Some(report) } else { None }
}

fn cause(report: &Report) -> String {
    match report {
        Report::TimedOut(deadline) => format!("timed_out {deadline:?}"),
        Report::Exceeded(cap) => format!("exceeded {cap:?}"),
        Report::Exited(_) => "ended_without_result".to_owned(),
        Report::Lost { code, .. } => format!("lost {code}"),
        Report::Released { until, .. } => format!("released {until:?}"),
        Report::Probed { met } => format!("probed {met}"),
        Report::Phase(_)
        | Report::Used(_)
        | Report::Limited { .. }
        | Report::Permission { .. }
        | Report::Question { .. }
        | Report::Stopped(_) => "none".to_owned(),
    }
}
