//! How a task is tried, as callers choose and see it.

use baton_domain::policy::{Choice, Policy};

use crate::shape::{Span, record};

record! {
    /// How a task is tried; what is not chosen stays as it is.
    pub struct PolicyView {
        /// Failures by the agent's own fault before the run fails.
        #[usual(Policy::default().attempts_max)]
        attempts_max: Option<u8>,
        /// Endings without a result before a person must look.
        #[usual(Policy::default().continuations_max)]
        continuations_max: Option<u8>,
        /// Losses of infrastructure before a person must look.
        #[usual(Policy::default().losses_max)]
        losses_max: Option<u8>,
        /// Attempts of any ending before a person must look.
        #[usual(Policy::default().tries_max)]
        tries_max: Option<u16>,
        /// Endings without a result in a row, with the work as it was, before a person must look.
        #[usual(Policy::default().stalls_max)]
        stalls_max: Option<u8>,
        /// How often in a row Baton or the train may send it back from one stage before a person must look.
        #[usual(Policy::default().setbacks_max)]
        setbacks_max: Option<u8>,
        /// Turns that one attempt may take.
        #[usual(Policy::default().turns_max)]
        turns_max: Option<u32>,
        /// Tools that one attempt may call.
        #[usual(Policy::default().tool_calls_max)]
        tool_calls_max: Option<u32>,
        /// Tokens that one attempt may read and write, cached ones aside.
        #[usual(Policy::default().tokens_max)]
        tokens_max: Option<u64>,
        /// The first pause after a failure; it doubles with each further one.
        #[usual(Policy::default().backoff.0)]
        backoff: Option<Span>,
        /// The longest pause after a failure; no shorter than the first.
        #[usual(Policy::default().backoff_max.0)]
        backoff_max: Option<Span>,
        /// How long a lease lives without renewal.
        #[usual(Policy::default().lease.0)]
        lease: Option<Span>,
        /// How long an attempt may take in all.
        #[usual(Policy::default().wall.0)]
        wall: Option<Span>,
        /// How long a question may keep an agent waiting.
        #[usual(Policy::default().input.0)]
        input: Option<Span>,
        /// How long a run may queue before it counts as starved.
        #[usual(Policy::default().starved.0)]
        starved: Option<Span>,
        /// Millionths of a currency unit that an attempt reserves from its tree's budget.
        #[usual(Policy::default().budget_micros)]
        budget_micros: Option<u64>,
    }
}

impl PolicyView {
    /// A policy as callers see it.
    #[must_use]
    pub fn of(policy: &Policy) -> Self {
        Self {
            attempts_max: Some(policy.attempts_max),
            continuations_max: Some(policy.continuations_max),
            losses_max: Some(policy.losses_max),
            tries_max: Some(policy.tries_max),
            stalls_max: Some(policy.stalls_max),
            setbacks_max: Some(policy.setbacks_max),
            turns_max: Some(policy.turns_max),
            tool_calls_max: Some(policy.tool_calls_max),
            tokens_max: Some(policy.tokens_max),
            backoff: Some(Span(policy.backoff)),
            backoff_max: Some(Span(policy.backoff_max)),
            lease: Some(Span(policy.lease)),
            wall: Some(Span(policy.wall)),
            input: Some(Span(policy.input)),
            starved: Some(Span(policy.starved)),
            budget_micros: Some(policy.budget_micros),
        }
    }

    /// What was chosen of it.
    #[must_use]
    pub fn choice(self) -> Choice {
        let span = |chosen: Option<Span>| chosen.map(|span| span.0);
        Choice {
            attempts_max: self.attempts_max,
            continuations_max: self.continuations_max,
            losses_max: self.losses_max,
            tries_max: self.tries_max,
            stalls_max: self.stalls_max,
            setbacks_max: self.setbacks_max,
            turns_max: self.turns_max,
            tool_calls_max: self.tool_calls_max,
            tokens_max: self.tokens_max,
            backoff: span(self.backoff),
            backoff_max: span(self.backoff_max),
            lease: span(self.lease),
            wall: span(self.wall),
            input: span(self.input),
            starved: span(self.starved),
            budget_micros: self.budget_micros,
        }
    }

    /// What was chosen, over what is usual.
    #[must_use]
    pub fn policy(self) -> Policy {
        self.choice().over(Policy::default())
    }
}
