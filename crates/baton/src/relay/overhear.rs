//! What agents say, for whoever follows them: asked for when somebody does, passed on, and kept by nobody here.

use crate::protocol::{Listen, Log};

use super::post::{Full, Post};

impl Post {
    /// Asks for what the worker's agents say, where somebody wants to know.
    pub(super) fn tell_listeners(&self) -> Result<(), Full> {
        let logs = self.relay.engine().logs();
        let asked = logs.take_asked(&self.caller.tenant, |attempt| self.has_token(attempt));
        for (attempt, after) in asked {
            self.say(Listen { attempt, after })?;
        }
        Ok(())
    }

    /// Passes on what an agent said. Without its token nobody speaks for an attempt.
    pub(super) fn heard_log(&self, log: Log) {
        if self.has_token(log.attempt) {
            let logs = self.relay.engine().logs();
            logs.put(&self.caller.tenant, log.attempt, log.lines);
        }
    }
}
