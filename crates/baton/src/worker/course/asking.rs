//! What an agent waits for: asked of a person through the server, one thing at a time, or settled by policy.

use std::collections::VecDeque;

use baton_domain::deadline::Deadline;
use baton_domain::text::{Message, Text};

use crate::adapters::{Reply, Seen};
use crate::protocol::{Phase, Standing};

use super::{Act, At, Course, Report, Why};

/// Things that one agent may wait for at once. Programs ask for a few tools side by side, never for so many.
pub(super) const WISHES_MAX: usize = 16;
/// What is asked where the words of the agent cannot be shown.
const UNSHOWN: &str = "The agent asks something that cannot be shown: look at its transcript.";
/// Words that permit. Whatever else a person says is a no, with their words as the reason.
const YES: [&str; 8] = ["yes", "y", "ok", "okay", "allow", "allowed", "approve", "approved"];

/// Something that an agent waits for.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// What its program calls it.
    id: String,
    /// What the server calls it.
    key: Text<64>,
    /// In the words of the agent.
    text: Message,
    is_permission: bool,
    /// What was said to it; it waits on until that has gone through its stream.
    reply: Option<Reply>,
}

/// Everything that it waits for, the oldest first.
pub(super) type Wishes = VecDeque<Wish>;

impl Course {
    /// The agent waits for something.
    pub(super) fn wishes(&mut self, seen: &Seen, at: At) {
        let (id, text, is_permission) = if let Seen::Permission { id, what } = seen {
            (id, what, true)
        } else if let Seen::Asked { id, text } = seen {
            (id, text, false)
        } else {
            return;
        };
        if self.wishes.iter().any(|wish| wish.id == *id) {
            return;
        }
        let mut reply = self.terms.consent.settles(seen);
        if reply.is_none() && self.wishes.len() >= WISHES_MAX {
            let why = format!("only {WISHES_MAX} things can be asked for at once");
            reply = Some(Reply::Deny { id: id.clone(), why });
        }
        if let Some(reply) = &reply {
            self.write(Act::Say(reply.clone()));
        }
        let wish = Wish { id: id.clone(), key: key(id), text: shown(text), is_permission, reply };
        self.wishes.push_back(wish);
        self.ask(at);
    }

    /// What the agent waited for has gone through its stream, or is no longer wanted.
    pub(super) fn settled(&mut self, id: &str, at: At) {
        let Some(place) = self.wishes.iter().position(|wish| wish.id == *id) else { return };
        let was_open = self.open_wish().is_some_and(|wish| wish.id == *id);
        let wish = self.wishes.remove(place);
        if let Some(wish) = wish.filter(|wish| self.told.asked() == Some(&wish.key)) {
            let answered = wish.reply.is_some();
            let phase = if answered { Phase::InputReceived } else { Phase::InputWithdrawn };
            self.tell(Report::Phase(phase));
        }
        if was_open || !self.waits() {
            self.go_on(at);
        }
        self.ask(at);
    }

    /// Somebody answered.
    pub(super) fn answered(&mut self, key: &str, text: String, at: At) {
        let open = |wish: &&mut Wish| wish.key.as_str() == key && wish.reply.is_none();
        let Some(wish) = self.wishes.iter_mut().find(open) else { return };
        let id = wish.id.clone();
        let reply = match wish.is_permission {
            true if permits(&text) => Reply::Allow { id },
            true => Reply::Deny { id, why: text },
            false => Reply::Answer { id, text },
        };
        wish.reply = Some(reply.clone());
        self.write(Act::Say(reply));
        self.go_on(at);
    }

    /// Asks for the oldest thing that nobody has answered, unless something is being asked.
    fn ask(&mut self, at: At) {
        let Some(wish) = self.open_wish() else { return };
        let (key, text, is_permission) = (wish.key.clone(), wish.text.clone(), wish.is_permission);
        self.wait_for_a_person(at);
        // What was answered goes through the stream first: the server knows of one question.
        let still_told = |wish: &Wish| self.told.asked() == Some(&wish.key);
        if self.wishes.iter().any(still_told) {
            return;
        }
        self.keep(Why::Phase, at);
        self.tell(if is_permission {
            Report::Permission { id: key, what: text }
        } else {
            Report::Question { id: key, text }
        });
    }

    /// Says and asks again what the worker before may not have come to.
    pub(super) fn ask_again(&mut self, at: At) {
        let replies: Vec<_> = self.wishes.iter().filter_map(|wish| wish.reply.clone()).collect();
        for reply in replies {
            self.write(Act::Say(reply));
        }
        let told = self.told.asked().cloned();
        if told.is_some_and(|told| !self.wishes.iter().any(|wish| wish.key == told)) {
            // Whether it was answered or taken back is in no spool; the server knows.
            self.tell(Report::Phase(Phase::InputWithdrawn));
        }
        self.ask(at);
    }

    /// How the run stands at the server.
    pub(super) fn stands(&mut self, standing: Standing, at: At) {
        let before = std::mem::replace(&mut self.standing, standing);
        let asks = self.open_wish().is_some();
        self.checks = standing == Standing::Verifying;
        match standing {
            Standing::Working if before == standing && !asks => {}
            // The answer to what it asks is on its way, or what it asks is on its way there.
            Standing::Working => {
                self.go_on(at);
                self.turn.turned(at);
            }
            Standing::Waiting if asks => self.wait_for_a_person(at),
            Standing::Waiting | Standing::Verifying | Standing::Held => {
                self.clocks.only(None, at);
                if before != standing {
                    self.keep(Why::Phase, at);
                }
            }
        }
    }

    /// Nothing is expected of the agent, and of a person not for ever.
    fn wait_for_a_person(&mut self, at: At) {
        let waits = self.clocks.iter().any(|(deadline, _)| deadline == Deadline::UserInput);
        if !waits {
            self.clocks.only(Some(Deadline::UserInput), at);
        }
    }

    /// Whether nothing is expected of the agent, because somebody else has to act.
    pub(super) fn waits(&self) -> bool {
        self.standing != Standing::Working || self.open_wish().is_some()
    }

    /// The oldest thing that nobody has answered.
    pub(super) fn open_wish(&self) -> Option<&Wish> {
        self.wishes.iter().find(|wish| wish.reply.is_none())
    }

    /// The agent is expected to show life again.
    fn go_on(&mut self, at: At) {
        if self.latch.is_some() || !self.is_running() {
            return;
        }
        let idle = if self.tools.is_empty() { Deadline::StreamIdle } else { Deadline::ToolIdle };
        let expected = !self.turn.is_over();
        self.clocks.only(expected.then_some(idle), at);
    }
}

fn permits(text: &str) -> bool {
    let is_end = |c: char| !c.is_alphanumeric();
    let first = text.trim().split(is_end).next().unwrap_or_default();
    YES.iter().any(|yes| first.eq_ignore_ascii_case(yes))
}

/// A name for the wire. Programs name by short words and UUIDs; the beginning of anything longer will do.
fn key(id: &str) -> Text<64> {
    let shown: String = id.chars().filter(|c| !c.is_control()).collect();
    let cut = &shown[..shown.floor_char_boundary(64)];
    Text::new("id", cut).unwrap_or_else(|_| Text::new("id", "question").expect("a word is a text"))
}

/// The agent's words, as far as a person can be shown them.
fn shown(text: &str) -> Message {
    let plain: String = text.chars().filter(|c| !c.is_control() || "\n\t".contains(*c)).collect();
    let cut = &plain[..plain.floor_char_boundary(8_192)];
    let unshown = || Text::new("text", UNSHOWN).expect("a plain sentence is a text");
    Text::new("text", cut).unwrap_or_else(|_| unshown())
}
