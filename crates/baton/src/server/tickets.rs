//! Tickets: how somebody who is known here, by the socket or by a key, comes in with a browser. A
//! ticket is good for half a minute and once, and only here; so wherever it is left lying, it
//! opens nothing.

use std::sync::{Mutex, PoisonError};

use baton_domain::time::{Millis, Timestamp};
use sha2::{Digest as _, Sha256};

use crate::chance::Chance;
use crate::identity::Caller;

/// How long a ticket is good.
const LIFETIME: Millis = Millis::seconds(30);
/// Tickets at once: the oldest goes when there are more.
const TICKETS_MAX: usize = 64;
/// Bytes of chance in a ticket.
const BYTES: usize = 32;

/// The tickets that nobody has used yet. Only their digests are kept.
#[derive(Default)]
pub struct Tickets(Mutex<Vec<Ticket>>);

struct Ticket {
    digest: [u8; 32],
    caller: Caller,
    until: Timestamp,
}

impl Tickets {
    /// A new ticket for this caller, and until when it is good.
    pub fn mint(&self, caller: Caller, chance: &dyn Chance, now: Timestamp) -> (String, Timestamp) {
        let mut bytes = [0; BYTES];
        chance.fill(&mut bytes);
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let until = now + LIFETIME;
        let ticket = Ticket { digest: digest(&text), caller, until };
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tickets.retain(|ticket| now < ticket.until);
        if tickets.len() >= TICKETS_MAX {
            tickets.remove(0);
        }
        tickets.push(ticket);
        (text, until)
    }

    /// Whoever a ticket was made for, this once.
    pub fn redeem(&self, text: &str, now: Timestamp) -> Option<Caller> {
        let digest = digest(text);
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = tickets.iter().position(|ticket| ticket.digest == digest)?;
        let ticket = tickets.remove(at);
        (now < ticket.until).then_some(ticket.caller)
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}
