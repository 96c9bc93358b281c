//! How many requests of one key are answered at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_domain::key::KeyId;

use crate::problem::Problem;

/// Requests in flight, by key.
#[derive(Debug, Default)]
pub struct Crowd(Mutex<HashMap<KeyId, usize>>);

/// The right to be answered; given back when it is dropped.
#[derive(Debug)]
pub struct Seat {
    crowd: Arc<Crowd>,
    key: KeyId,
}

impl Crowd {
    /// Takes one of the seats of a key.
    pub fn enter(self: &Arc<Self>, key: &KeyId, count_max: usize) -> Result<Seat, Problem> {
        let mut seats = self.lock();
        let taken = seats.entry(key.clone()).or_default();
        if *taken >= count_max {
            let detail = format!("a key has at most {count_max} requests in flight");
            return Err(Problem::new("rate_limited", detail));
        }
        *taken += 1;
        drop(seats);
        Ok(Seat { crowd: Arc::clone(self), key: key.clone() })
    }

    /// Whoever panicked while it held the lock left the counts whole: every change is one step.
    fn lock(&self) -> MutexGuard<'_, HashMap<KeyId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.crowd.lock();
        if let Some(taken) = seats.get_mut(&self.key) {
            *taken -= 1;
            if *taken == 0 {
                seats.remove(&self.key);
            }
        }
    }
}
