//! What a worker has told of an attempt, in a few words: what the next one needs not to tell it again.

use std::collections::BTreeSet;

use baton_domain::text::Text;
use serde::{Deserialize, Serialize};

use crate::protocol::{Phase, Up};

/// What was told of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    /// How far it was, each as soon as it was so for the first time.
    phases: BTreeSet<Phase>,
    /// The last question that was told.
    asked: Option<Text<64>>,
    /// Whether the cause of its end was.
    ended: bool,
    /// Whether its death was, without a survivor.
    dead: bool,
}

impl Told {
    /// Takes in a frame that was told.
    pub fn take(&mut self, frame: &Up) {
        match frame {
            Up::Lifecycle(told) => {
                self.phases.insert(told.phase);
                self.ended |= matches!(told.phase, Phase::TimedOut | Phase::Exceeded);
            }
            Up::Question(told) => self.asked = Some(told.id.clone()),
            Up::Permission(told) => self.asked = Some(told.id.clone()),
            Up::Exited(_) | Up::Lost(_) | Up::Released(_) | Up::Probed(_) => self.ended = true,
            Up::Stopped(told) => self.dead |= !told.survivor,
            Up::Hello(_)
            | Up::Credit(_)
            | Up::Usage(_)
            | Up::Limit(_)
            | Up::Gate(_)
            | Up::Checkpoint(_)
            | Up::Heartbeat(_)
            | Up::Bye(_) => {}
        }
    }
}
