//! What the people and the attempts of a script say.

use baton_domain::command::{
    Agent, Command, Evidence, FailedItem, Note, Person, Proof, Report, Supervisor, Verdict,
};
use baton_domain::contract::{Artifact, Finding, Receipt, Submission};
use baton_domain::deadline::{Deadline, Sight};
use baton_domain::ids::{Digest, TaskId};
use baton_domain::run::{Cap, Death, Mark, Purpose, Why};
use baton_domain::task::{Ending, Hold, Impediment};
use baton_domain::time::Millis;

use crate::script::Script;
use crate::words::{block, capability, checkpoint, complete, label, line, snapshot, text};

impl Script {
    /// What a holder says: mostly something that fits how far its attempt is.
    pub(super) fn of_attempt(&mut self, task: TaskId, proof: &Proof) -> Command {
        let flow = self.known(task);
        let held = flow.and_then(|flow| flow.run.as_ref()?.held());
        let phase = held.map(|held| (held.purpose, held.phase.word()));
        let fits = self.chance.chance(0.6);
        match phase {
            Some((_, "stopping")) if fits => {
                let stopped = Supervisor::Stopped { death: self.death(), survivor: false };
                Command::Supervisor(proof.clone(), stopped)
            }
            Some((_, "verifying")) if fits => Command::Verifier(proof.clone(), self.verdict()),
            Some((Purpose::Probe, _)) if fits => {
                let met = self.chance.chance(0.5);
                Command::Supervisor(proof.clone(), Supervisor::Probed { met })
            }
            Some(_) | None => match self.chance.below(10) {
                0..6 => Command::Agent(proof.clone(), self.agent()),
                6..9 => Command::Supervisor(proof.clone(), self.supervisor()),
                _ => Command::Verifier(proof.clone(), self.verdict()),
            },
        }
    }

    fn death(&mut self) -> Death {
        let deaths = [Death::Cgroup, Death::PidNamespace, Death::SubreaperEchild, Death::None];
        *self.chance.pick(&deaths)
    }

    fn agent(&mut self) -> Agent {
        match self.chance.below(18) {
            0 => Agent::Begin,
            1 => Agent::Progress(Report {
                summary: Some(text("so far")),
                cursor: None,
                done: vec![text("one item"), text("another")],
                failed: vec![FailedItem { item: text("a third"), reason: text("too hard") }],
            }),
            2 => checkpoint("a short note"),
            3 => Agent::Checkpoint(Box::new(Note {
                summary: text("a long note"),
                cursor: Some(text("line 12")),
                evidence: vec![Evidence {
                    kind: label("log"),
                    reference: text("blob:1"),
                    summary: Some(text("the log")),
                }],
                git: [(label("head"), text("0123abcd"))].into(),
            })),
            4 | 5 => Agent::Ask(text("how?")),
            6..9 => Agent::Receive(*self.chance.pick(&[Mark::Delivered, Mark::Applied])),
            9..12 => self.block(),
            12 | 13 => Agent::Fail { code: text("tests_red"), reason: text("they are") },
            14 => complete(),
            _ => {
                Agent::Complete { summary: Some(text("it is done")), submission: self.submission() }
            }
        }
    }

    fn block(&mut self) -> Agent {
        let soon = self.now + Millis::seconds(self.chance.below(30));
        let why = match self.chance.below(6) {
            0 | 1 => Why::NeedsInput,
            2 => Why::Capability { needs: capability("gpu") },
            3 | 4 => Why::Transient { until: soon },
            _ => Why::Dependency { on: self.task() },
        };
        let reason = text("it cannot go on");
        let condition = self.chance.chance(0.5).then(|| text("test -f done"));
        if condition.is_none() { block(why) } else { Agent::Block { why, reason, condition } }
    }

    fn submission(&mut self) -> Submission {
        let digest = |digit: &str| Digest::new(&digit.repeat(64)).expect("hex digits");
        let path = text("out/report.md");
        let bytes = self.chance.below(20) * 5;
        let contract = match self.chance.below(8) {
            0 => Some(digest("a")),
            1 => Some(digest("b")),
            _ => None,
        };
        let artifacts = vec![Artifact { path, digest: digest("c"), bytes }];
        Submission { tree: Some(text("4b825dc6")), artifacts, contract }
    }

    fn verdict(&mut self) -> Verdict {
        let finding = match self.chance.below(4) {
            0 => Finding::Fails { reason: text("no"), evidence: None },
            1 => Finding::Waived { reason: text("never mind") },
            _ => Finding::Holds { evidence: None },
        };
        let receipt = |name| Receipt {
            line: line(name),
            finding: finding.clone(),
            at: self.now,
            signed: None,
        };
        Verdict { receipts: vec![receipt("review"), receipt("report")], ..Verdict::default() }
    }

    fn supervisor(&mut self) -> Supervisor {
        let sights = [
            Sight::ProcessStarted,
            Sight::PromptWritten,
            Sight::FirstEvent,
            Sight::FirstVisibleEvent,
            Sight::Streaming,
            Sight::ToolStarted,
            Sight::ToolFinished,
            Sight::Progressed,
        ];
        match self.chance.below(21) {
            0..4 => Supervisor::Renew { lease: None },
            4 => Supervisor::Renew { lease: Some(Millis::seconds(self.chance.below(40))) },
            5 | 6 => Supervisor::Report(*self.chance.pick(&sights)),
            7 => Supervisor::Spend { total_micros: self.chance.below(50) },
            8 => Supervisor::TimedOut(Deadline::StreamIdle),
            9 | 17 | 18 => Supervisor::Exited,
            10..13 => {
                Supervisor::Stopped { death: self.death(), survivor: self.chance.chance(0.2) }
            }
            13 => Supervisor::Exceeded(*self.chance.pick(&[Cap::Turns, Cap::Tokens])),
            14 => Supervisor::Probed { met: self.chance.chance(0.5) },
            15 => Supervisor::Heard { seq: self.chance.below(6) },
            16 => snapshot("kept"),
            _ => {
                let until = self.now + Millis::seconds(self.chance.below(20));
                let until = self.chance.chance(0.4).then_some(until);
                Supervisor::Release { reason: text("enough"), until }
            }
        }
    }

    /// What a person says: often something that fits how the task stands.
    pub(super) fn person(&mut self, task: TaskId) -> Person {
        let reason = text("because");
        if self.chance.chance(0.5)
            && let Some(says) = self.fitting(task)
        {
            return says;
        }
        match self.chance.below(24) {
            0..3 => Person::Edit(Box::new(self.patch())),
            3 => Person::Publish,
            4 => Person::Approve,
            5 | 6 => {
                let soon = self.now + Millis::seconds(self.chance.below(20));
                let to = self.chance.chance(0.8).then(|| self.stage());
                Person::Move { to, start_at: self.chance.chance(0.3).then_some(soon) }
            }
            7..11 => {
                let hold = *self.chance.pick(&[Hold::Frozen, Hold::Review]);
                Person::Hold { hold, on: self.chance.chance(0.4), reason }
            }
            11 => self.close(),
            12 => Person::Archive,
            13..16 => Person::Depend { on: self.task(), wait: self.chance.chance(0.6) },
            16 | 17 => Person::Answer(text("like this")),
            18 => Person::Unblock(reason),
            19 => Person::Cancel(reason),
            20 | 21 => Person::Retry(reason),
            22 => Person::Release(reason),
            _ => Person::Fail { code: text("forced"), reason },
        }
    }

    fn fitting(&mut self, task: TaskId) -> Option<Person> {
        let reason = text("it fits");
        let flow = self.known(task)?;
        match flow.impediment() {
            Some(Impediment::Draft) => return Some(Person::Publish),
            Some(Impediment::Approval) => return Some(Person::Approve),
            Some(Impediment::Held(hold)) => return Some(Person::Hold { hold, on: false, reason }),
            Some(Impediment::Dependency(on)) => return Some(Person::Depend { on, wait: false }),
            None => {}
        }
        let word = flow.run.as_ref().map(|run| run.word());
        match word {
            None if flow.last.is_some() => Some(Person::Retry(reason)),
            Some("blocked" | "waiting_input") => Some(Person::Answer(text("like that"))),
            Some("delayed") => Some(Person::Retry(reason)),
            None | Some(_) => None,
        }
    }

    fn close(&mut self) -> Person {
        let reason = text("it ends");
        Person::Close(match self.chance.below(4) {
            0 => Ending::Superseded { by: self.task(), reason },
            1 => Ending::Rejected { reason },
            2 => Ending::Done { verified: true },
            _ => Ending::Abandoned { reason },
        })
    }
}
