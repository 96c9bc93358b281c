//! The only writer of a task's state: every change is an event that was applied here, and
//! applying the same events again rebuilds the same row.

mod brief;
mod counts;
mod ending;

use std::collections::{BTreeMap, BTreeSet};

use crate::command::{Clear, NewTask, Patch};
use crate::contract::{Contract, ContractMark, SubmissionMark};
use crate::deadline::{Armed, Deadline, Sight};
use crate::event::{Event, Opened, Requeue};
use crate::ids::{Digest, TaskId};
use crate::limits::LATE_ATTEMPTS_MAX;
use crate::pace::Pace;
use crate::policy::Policy;
use crate::run::{
    Answer, Cap, Counts, Delay, Finish, Finished, Held, Idle, Mark, Mode, Outcome, Phase, Progress,
    Purpose, Question, Run, RunResult, RunState, Tally, Why,
};
use crate::task::{Approval, Brief, Flow, Holds, Stage, Task, Wait};
use crate::time::Timestamp;
use crate::trail::Trail;

impl Task {
    /// The task that its first event makes; none if the event is not a birth.
    #[must_use]
    pub fn born(event: &Event, at: Timestamp) -> Option<Self> {
        let Event::Created { id, ancestors, met, task } = event else { return None };
        let mark = task.contract.as_ref().map(|(contract, hash)| mark(contract, hash));
        let open = task.depends_on.iter().filter(|on| !met.contains(on));
        let flow = Flow {
            id: *id,
            version: 1,
            ancestors: ancestors.clone(),
            waits_for: open.map(|on| (*on, Wait::Open)).collect(),
            dependencies: count(task.depends_on.len()),
            contract: mark.flatten(),
            ..Flow::fresh(*id, task, at)
        };
        let contract = task.contract.as_ref().map(|(contract, _)| contract.clone());
        let brief = Brief {
            title: task.title.clone(),
            body: task.body.clone(),
            labels: task.labels.clone(),
            contract: contract.unwrap_or_default(),
            bound: None,
        };
        Some(Self { flow, brief: Some(brief) })
    }

    /// Begins the next entry of the history; the events of one order share a version.
    pub fn turn(&mut self) {
        self.flow.version += 1;
    }

    /// Carries out what happened.
    pub fn apply(&mut self, event: &Event, at: Timestamp) {
        if let Some(brief) = &mut self.brief {
            if let Event::Edited { patch } = event {
                brief.edit(patch);
            }
            if let Event::Bound { binding, .. } = event {
                brief.bind(binding);
            }
        }
        self.flow.apply(event, at);
    }
}

/// An empty contract proves nothing and leaves no mark.
fn mark(contract: &Contract, hash: &Digest) -> Option<ContractMark> {
    let lines = u16::try_from(contract.lines.len()).unwrap_or(u16::MAX);
    marked(hash, lines, 0)
}

/// So many lines of the task's own, and so many of the project's.
fn marked(hash: &Digest, own: u16, bound: u16) -> Option<ContractMark> {
    let lines = own.saturating_add(bound);
    (lines > 0).then(|| ContractMark { hash: hash.clone(), lines, bound })
}

/// Counts what a check has bounded before.
fn count(length: usize) -> u8 {
    u8::try_from(length).unwrap_or(u8::MAX)
}

impl Flow {
    fn fresh(id: TaskId, task: &NewTask, at: Timestamp) -> Self {
        Self {
            id,
            version: 0,
            project: task.project.clone(),
            creator: task.creator.clone(),
            creator_task: task.creator_task,
            ancestors: vec![],
            kind: task.kind,
            priority: task.priority,
            draft: task.draft,
            approval: if task.needs_approval { Approval::Pending } else { Approval::NotRequired },
            stage: Stage::Backlog,
            holds: Holds::default(),
            waits_for: BTreeMap::new(),
            dependencies: 0,
            assignee: task.assignee.clone(),
            capabilities: task.capabilities.clone(),
            key: task.key.clone(),
            policy: task.policy,
            contract: None,
            run: None,
            last: None,
            head: None,
            runs: 0,
            attempts: 0,
            checkpoints: 0,
            recurrence: BTreeMap::new(),
            setbacks: BTreeMap::new(),
            owed: None,
            undone: 0,
            unproven: BTreeSet::new(),
            settled: BTreeMap::new(),
            generation: 0,
            doubted: false,
            created_at: at,
            ended_at: None,
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm per event")]
    fn apply(&mut self, event: &Event, at: Timestamp) {
        let version = self.version;
        match event {
            Event::Created { .. } | Event::Woken { .. } | Event::Merged { .. } => {}
            Event::Edited { patch } => self.edit(patch),
            Event::Published => self.draft = false,
            Event::Approved => self.approval = Approval::Approved,
            Event::Moved { to, run, doubted } => {
                self.doubted = *doubted;
                self.stage = to.clone().map_or(Stage::Backlog, Stage::Working);
                self.owed = None;
                if let Some(opened) = run {
                    self.open(opened, at);
                }
            }
            Event::SetBack { from, run, doubted } => {
                let count = self.setbacks.entry(from.clone()).or_default();
                *count = count.saturating_add(1);
                self.doubted = *doubted;
                self.stage = Stage::Working(run.stage.clone());
                self.open(run, at);
            }
            Event::Ended { ending } => {
                self.stage = Stage::Ended(ending.kept());
                self.owed = None;
                self.ended_at = Some(at);
            }
            Event::Archived => {
                if let Stage::Ended(ending) = &self.stage {
                    self.stage = Stage::Archived(ending.clone());
                }
            }
            Event::HoldSet { hold, on, .. } => *self.holds.flag(*hold) = *on,
            Event::Owing { owed } => self.owed = Some(owed.kept()),
            Event::DependencyAdded { on, met } => {
                self.dependencies = self.dependencies.saturating_add(1);
                if !met {
                    self.waits_for.insert(*on, Wait::Open);
                }
            }
            Event::DependencyRemoved { on } => {
                self.dependencies = self.dependencies.saturating_sub(1);
                self.waits_for.remove(on);
            }
            Event::DependencySettled { on, met: true } => {
                self.waits_for.remove(on);
            }
            Event::DependencySettled { on, met: false } => {
                self.waits_for.insert(*on, Wait::Failed);
            }
            Event::ChildrenSettled { undone } => self.undone = *undone,
            Event::RunOpened { run, .. } => self.open(run, at),
            Event::RunFinished { finish, result, .. } => self.finish(finish, *result, false),
            Event::Requeued { why, reason } => {
                self.requeue(at);
                if *why == Requeue::Unblocked && reason.is_some() {
                    self.hear(version);
                }
            }
            Event::Starved => self.on_run(|run| run.starved = true),
            Event::Claimed { .. } => self.claim(event, at),
            Event::Began => self.on_attempt(at, |held, _| {
                held.phase = Phase::Working;
                held.armed.begin();
            }),
            Event::Seen { sight } => self.on_attempt(at, |held, policy| {
                held.armed.see(*sight, policy, at);
                held.effects |= sight.may_have_effects();
                held.moved |= *sight == Sight::Progressed;
            }),
            Event::Progressed { report } => {
                self.on_run(|run| {
                    run.trail.report(run.progress, report, version);
                    run.progress.add(report);
                });
                self.on_attempt(at, |held, policy| held.spoke(policy, at));
            }
            Event::Checkpointed { number, of: Some(_), .. } => self.checkpoints = *number,
            Event::Checkpointed { number, of: None, snapshot, .. } => {
                self.checkpoints = *number;
                self.on_run(|run| run.checkpoints = run.checkpoints.saturating_add(1));
                if *snapshot {
                    // Its supervisor copies the work of whoever is silent, too.
                    self.on_held(|held| held.pace.count(held.claimed_at, at));
                } else {
                    self.on_attempt(at, |held, policy| held.spoke(policy, at));
                }
            }
            Event::Asked { .. } => {
                self.on_run(|run| run.trail.talk.add(version));
                self.on_attempt(at, |held, policy| {
                    held.effects = true;
                    held.phase = Phase::WaitingInput(Question { raised: version, asked_at: at });
                    held.armed.only(Some(Deadline::UserInput), policy, at);
                });
            }
            Event::Withdrawn => self.on_attempt(at, |held, policy| held.go_on(policy, at)),
            Event::Answered { .. } => self.answer(version, at),
            Event::AnswerMarked { mark } => self.on_run(|run| {
                run.answer = run.answer.map(|answer| Answer { mark: *mark, ..answer });
            }),
            Event::Spent { attempt, micros } if !self.is_held_by(*attempt) => {
                let settled = self.settled.entry(*attempt).or_default();
                *settled = settled.saturating_add(*micros);
            }
            Event::Spent { micros, .. } => self.on_attempt(at, |held, _| {
                held.spent_micros = held.spent_micros.saturating_add(*micros);
            }),
            Event::Submitted { submission, .. } => {
                self.on_run(|run| {
                    run.trail.submitted = Some(version);
                    run.author = run.held().map(|held| held.holder.clone());
                });
                self.on_attempt(at, |held, policy| {
                    let (raised, attempt) = (version, held.attempt);
                    // Whoever is watched works in a folder that its worker keeps.
                    let tree = submission.tree.is_some() || held.mode == Mode::Supervised;
                    let mark = SubmissionMark { raised, attempt, tree, review: false };
                    held.effects = true;
                    held.submission = Some(mark);
                    held.phase = Phase::Verifying { exited: false };
                    held.armed.only(None, policy, at);
                });
            }
            Event::Verified { passed, commit, review, .. } => {
                if let (true, Some(commit)) = (passed, commit) {
                    self.head = Some(commit.clone());
                }
                self.on_run(|run| run.trail.verified = Some(version));
                self.on_attempt(at, |held, policy| {
                    if *review && let Some(mark) = &mut held.submission {
                        mark.review = true;
                    }
                    if !passed && held.purpose == Purpose::Work {
                        held.phase = Phase::Working;
                        held.submission = None;
                        held.rounds += 1;
                        held.rearm(policy, at);
                    }
                });
            }
            Event::Bound { binding, added } => {
                let mark = self.contract.as_ref();
                let own = mark.map_or(0, |mark| mark.lines.saturating_sub(mark.bound));
                self.contract = marked(&binding.hash, own, *added);
            }
            Event::Reviewed { review } if review.approved => {}
            Event::Reviewed { .. } => self.on_run(|run| {
                run.trail.verified = Some(version);
                run.rejections = run.rejections.saturating_add(1);
                run.tally.count(Counts::Fault);
                run.ready_at = at;
                run.state = RunState::Idle(Idle::Queued);
            }),
            Event::Exited => self.on_attempt(at, |held, _| {
                if let Phase::Verifying { exited } = &mut held.phase {
                    *exited = true;
                }
            }),
            Event::Stopping { verdict, fenced_at, .. } => self.on_attempt(at, |held, policy| {
                let mut verdict = verdict.clone();
                if let Outcome::Blocked { block, .. } = &mut verdict {
                    block.raised = version;
                }
                let survivor = matches!(held.phase, Phase::Stopping { survivor: true, .. });
                held.phase = Phase::Stopping { verdict, survivor, raised: version };
                held.armed.clean_up(*fenced_at, policy, at);
            }),
            Event::Survived => self.on_attempt(at, |held, _| {
                if let Phase::Stopping { survivor, .. } = &mut held.phase {
                    *survivor = true;
                }
            }),
            Event::AttemptEnded { .. } => self.end_attempt(event, at),
            Event::DeathProved { attempt, .. } => {
                self.unproven.remove(attempt);
            }
        }
    }

    fn on_run(&mut self, change: impl FnOnce(&mut Run)) {
        if let Some(run) = &mut self.run {
            change(run);
        }
    }

    fn on_attempt(&mut self, at: Timestamp, change: impl FnOnce(&mut Held, &Policy)) {
        let policy = self.policy;
        self.on_held(|held| {
            held.active_at = at;
            held.pace.count(held.claimed_at, at);
            change(held, &policy);
        });
    }

    fn on_held(&mut self, change: impl FnOnce(&mut Held)) {
        if let Some(Run { state: RunState::Held(held), .. }) = &mut self.run {
            change(held);
        }
    }

    fn is_held_by(&self, attempt: u32) -> bool {
        self.run.as_ref().and_then(Run::held).is_some_and(|held| held.attempt == attempt)
    }

    fn edit(&mut self, patch: &Patch) {
        if let Some(priority) = patch.priority {
            self.priority = priority;
        }
        if patch.clear.contains(&Clear::Assignee) {
            self.assignee = None;
        }
        if let Some(assignee) = &patch.assignee {
            self.assignee = Some(assignee.clone());
        }
        if let Some(capabilities) = &patch.capabilities {
            self.capabilities = capabilities.clone();
        }
        if let Some(choice) = patch.policy {
            self.policy = choice.over(self.policy);
        }
        if let Some((contract, hash)) = &patch.contract {
            let bound = self.contract.as_ref().map_or(0, |mark| mark.bound);
            let own = u16::try_from(contract.lines.len()).unwrap_or(u16::MAX);
            self.contract = marked(hash, own, bound);
        }
    }

    fn open(&mut self, opened: &Opened, at: Timestamp) {
        self.runs = opened.number;
        let state = match opened.due_at {
            None => Idle::Queued,
            Some(due_at) => Idle::Delayed { due_at, why: Delay::Scheduled },
        };
        self.run = Some(Run {
            number: opened.number,
            stage: opened.stage.clone(),
            previous: opened.previous,
            depth: opened.depth,
            opened_at: at,
            ready_at: at,
            state: RunState::Idle(state),
            tally: Tally::default(),
            answer: None,
            progress: Progress::default(),
            checkpoints: 0,
            starved: false,
            trail: Trail::default(),
            worked_by: opened.worked_by,
            author: None,
            rejections: 0,
        });
    }

    fn finish(&mut self, finish: &Finish, result: Option<RunResult>, silent_end: bool) {
        let Some(run) = self.run.take() else { return };
        if *finish == Finish::Completed {
            self.setbacks.remove(&run.stage);
        }
        self.doubted |= *finish == Finish::Completed && result != Some(RunResult::Verified);
        self.last = Some(Finished {
            number: run.number,
            stage: run.stage,
            depth: run.depth,
            finish: finish.clone(),
            result,
            silent_end,
            submitted: run.trail.submitted,
        });
    }

    fn requeue(&mut self, at: Timestamp) {
        let Some(run) = &mut self.run else { return };
        let mut next = Idle::Queued;
        if let RunState::Idle(Idle::Blocked(block)) = &run.state {
            self.recurrence.entry(block.why.kind()).or_default().cleared = true;
            run.tally.forgive(block);
            if block.why == (Why::Limit { cap: Cap::Setbacks }) {
                self.setbacks.remove(&run.stage);
            }
            next = block.submission.map_or(Idle::Queued, Idle::Submitted);
        }
        run.ready_at = at;
        run.starved = false;
        run.state = RunState::Idle(next);
    }

    fn claim(&mut self, event: &Event, at: Timestamp) {
        let Event::Claimed { attempt, holder, mode, purpose, takes } = event else { return };
        self.attempts = *attempt;
        self.settled.retain(|old, _| old.saturating_add(LATE_ATTEMPTS_MAX) > *attempt);
        let Some(run) = &mut self.run else { return };
        let (picked, submission, phase) = match &run.state {
            RunState::Idle(Idle::Blocked(block)) => (Some(block.clone()), None, Phase::Leased),
            RunState::Idle(Idle::Submitted(submission)) => {
                (None, Some(*submission), Phase::Verifying { exited: true })
            }
            RunState::Idle(Idle::Queued | Idle::Delayed { .. }) | RunState::Held(_) => {
                // Whoever checks begins at once: there is no agent to wait for.
                let checks = *purpose == Purpose::Verify;
                let phase = if checks { Phase::Verifying { exited: true } } else { Phase::Leased };
                (None, None, phase)
            }
        };
        run.state = RunState::Held(Held {
            attempt: *attempt,
            holder: holder.clone(),
            mode: *mode,
            purpose: *purpose,
            phase,
            claimed_at: at,
            active_at: at,
            picked,
            submission,
            takes: takes.clone(),
            armed: Armed::at_claim(&self.policy, *mode, *purpose, at),
            effects: false,
            moved: false,
            rounds: 0,
            spent_micros: 0,
            pace: Pace::default(),
        });
    }

    /// A person said something to whoever goes on with the run.
    fn hear(&mut self, version: u64) {
        self.on_run(|run| {
            run.answer = Some(Answer { given: version, mark: Mark::Sent });
            run.trail.talk.add(version);
        });
    }

    fn answer(&mut self, version: u64, at: Timestamp) {
        self.hear(version);
        self.on_attempt(at, |held, policy| match &mut held.phase {
            Phase::WaitingInput(_) => held.go_on(policy, at),
            Phase::Stopping { verdict: Outcome::Blocked { answered, .. }, .. } => *answered = true,
            Phase::Leased | Phase::Working | Phase::Verifying { .. } | Phase::Stopping { .. } => {}
        });
    }
}
