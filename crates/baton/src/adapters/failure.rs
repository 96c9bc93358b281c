//! Why a turn ended badly: a closed list of codes, whatever the program calls it.

use std::fmt;

use super::fields;
use super::seen::{End, Exit, Seen};

/// Whose fault it is, which says what it counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The agent's.
    Agent,
    /// The machine's, the network's or the provider's.
    Infrastructure,
    /// Nobody's: a limit was reached, and time lifts it.
    Limit,
    /// The operator's: nothing gets better until somebody changes something.
    Config,
    /// Nobody can tell.
    Unknown,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The stable word.
    pub code: &'static str,
    /// Whose fault it is.
    pub class: Class,
    /// Whether another attempt may help, before it is asked whether one is safe.
    pub retryable: bool,
    /// What the operator should do.
    pub operator: &'static str,
    /// What whoever waits for the task should know.
    pub user: &'static str,
}

/// A failure that happened, with what the program said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which.
    pub failure: &'static Failure,
    /// In the words of the program: data, and never more than a part of it.
    pub detail: String,
}

impl Class {
    /// The stable word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Infrastructure => "infrastructure",
            Self::Limit => "limit",
            Self::Config => "config",
            Self::Unknown => "unknown",
        }
    }
}

const fn row(
    code: &'static str,
    class: Class,
    retryable: bool,
    operator: &'static str,
    user: &'static str,
) -> Failure {
    Failure { code, class, retryable, operator, user }
}

/// The account is at its limit.
pub const RATE_LIMITED: Failure = row(
    "rate_limited",
    Class::Limit,
    true,
    "wait for the reset, or add an account",
    "the agent's account is at its limit; the work goes on by itself once that is lifted",
);
/// The account has nothing left to spend.
pub const QUOTA_SPENT: Failure = row(
    "quota_spent",
    Class::Limit,
    true,
    "buy credits for the account, or add another one",
    "the agent's account has no credits left",
);
/// The key is not accepted.
pub const NOT_SIGNED_IN: Failure = row(
    "not_signed_in",
    Class::Config,
    false,
    "renew the credentials of the account: the provider does not accept them",
    "the agent cannot sign in to its provider; its operator must act",
);
/// There is no such model, or not for this account.
pub const MODEL_UNKNOWN: Failure = row(
    "model_unknown",
    Class::Config,
    false,
    "name a model that the account may use",
    "the agent is set up with a model that is not there; its operator must act",
);
/// The program was started wrongly.
pub const MISUSED: Failure = row(
    "misused",
    Class::Config,
    false,
    "compare the version of the program with the one that Baton was made for",
    "the agent program did not understand how it was started; its operator must act",
);
/// There is no such program.
pub const NOT_INSTALLED: Failure = row(
    "not_installed",
    Class::Config,
    false,
    "install the program on this worker, or take its capability from it",
    "the agent program is not there; its operator must act",
);
/// The session cannot be gone on with.
pub const SESSION_LOST: Failure = row(
    "session_lost",
    Class::Infrastructure,
    true,
    "nothing: the next attempt begins a new session from the hand-off",
    "the agent's conversation is gone; the next attempt starts from the last checkpoint",
);
/// The session is used by another process.
pub const SESSION_TAKEN: Failure = row(
    "session_taken",
    Class::Infrastructure,
    true,
    "look for a process that survived the attempt before",
    "the agent's conversation is still open elsewhere; it is tried again",
);
/// The provider is broken or has too much to do.
pub const PROVIDER_FAILED: Failure = row(
    "provider_failed",
    Class::Infrastructure,
    true,
    "look at the status page of the provider",
    "the agent's provider had a failure; it is tried again",
);
/// The provider cannot be reached.
pub const PROVIDER_AWAY: Failure = row(
    "provider_away",
    Class::Infrastructure,
    true,
    "look at the network of this worker",
    "the agent could not reach its provider; it is tried again",
);
/// The program could not put its own fence up.
pub const SANDBOX_FAILED: Failure = row(
    "sandbox_failed",
    Class::Infrastructure,
    false,
    "let the program's sandbox work on this worker, or let Baton's suffice",
    "the agent could not be isolated; its operator must act",
);
/// A signal ended it that Baton did not send.
pub const KILLED: Failure = row(
    "killed",
    Class::Infrastructure,
    true,
    "look for whoever sends signals, and at the memory of this worker",
    "the agent was killed; it is tried again",
);
/// The conversation does not fit any more.
pub const CONTEXT_FULL: Failure = row(
    "context_full",
    Class::Agent,
    true,
    "make the task smaller, or let the agent make checkpoints more often",
    "the agent's conversation grew too long; the next attempt starts from the last checkpoint",
);
/// The model will not.
pub const REFUSED: Failure = row(
    "refused",
    Class::Agent,
    false,
    "read the task as the model's provider would",
    "the model refuses to do this",
);
/// The model asked for what was not permitted until its program gave up.
pub const DENIED_TOO_OFTEN: Failure = row(
    "denied_too_often",
    Class::Agent,
    true,
    "permit what the task needs, or say in the task what may not be done",
    "the agent wanted again and again what it may not do",
);
/// It took as many steps as it may.
pub const TURNS_SPENT: Failure = row(
    "turns_spent",
    Class::Agent,
    true,
    "allow more steps per attempt",
    "the agent took as many steps as it may in one attempt",
);
/// It spent as much as it may.
pub const BUDGET_SPENT: Failure = row(
    "budget_spent",
    Class::Agent,
    true,
    "allow more money per attempt",
    "the agent spent as much as it may in one attempt",
);
/// The provider did not understand what the program asked.
pub const REQUEST_REFUSED: Failure = row(
    "request_refused",
    Class::Unknown,
    true,
    "read the transcript: the provider refused a request of the program",
    "the agent's provider refused a request; it is tried again",
);
/// It ended as if all was well, in the middle of a turn.
pub const SILENT_END: Failure = row(
    "silent_end",
    Class::Agent,
    true,
    "read the transcript: the program went away in the middle of its turn",
    "the agent ended in the middle of its work; it is tried again",
);
/// It ended badly, and nobody knows why.
pub const CRASHED: Failure = row(
    "crashed",
    Class::Unknown,
    true,
    "read the transcript and the last words of the program",
    "the agent program broke; it is tried again",
);

/// Every way to fail.
pub const FAILURES: [&Failure; 21] = [
    &RATE_LIMITED,
    &QUOTA_SPENT,
    &NOT_SIGNED_IN,
    &MODEL_UNKNOWN,
    &MISUSED,
    &NOT_INSTALLED,
    &SESSION_LOST,
    &SESSION_TAKEN,
    &PROVIDER_FAILED,
    &PROVIDER_AWAY,
    &SANDBOX_FAILED,
    &KILLED,
    &CONTEXT_FULL,
    &REFUSED,
    &DENIED_TOO_OFTEN,
    &TURNS_SPENT,
    &BUDGET_SPENT,
    &REQUEST_REFUSED,
    &SILENT_END,
    &SCRIPT_WRONG,
    &CRASHED,
];

/// The file of steps is wrong.
pub const SCRIPT_WRONG: Failure = row(
    "script_wrong",
    Class::Config,
    false,
    "correct the step that is named",
    "the scripted agent was given a step that it cannot read",
);

/// How the shell and the kernel say that there is no such program, and that it cannot be run.
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;
/// Above it a shell tells the signal that ended what it ran.
const SIGNAL_BASE: i32 = 128;
/// The highest signal.
const SIGNAL_MAX: i32 = 64;
/// What a program that was interrupted is ended by.
const INTERRUPT: i32 = 2;

impl Failure {
    /// What a status of HTTP means, whoever the provider is.
    #[must_use]
    pub fn of_status(status: u16) -> &'static Self {
        match status {
            401 | 403 => &NOT_SIGNED_IN,
            402 => &QUOTA_SPENT,
            404 => &MODEL_UNKNOWN,
            413 => &CONTEXT_FULL,
            429 => &RATE_LIMITED,
            400..=499 => &REQUEST_REFUSED,
            500..=599 => &PROVIDER_FAILED,
            _ => &CRASHED,
        }
    }

    /// Says it happened.
    #[must_use]
    pub fn with(&'static self, detail: &str) -> Fault {
        Fault { failure: self, detail: fields::clip(detail.trim()) }
    }
}

/// What the exit of a process means that was in the middle of a turn, if nothing more is known.
pub(super) fn of_exit(exit: Exit) -> (End, &'static Failure) {
    match exit {
        Exit::Code(0) => (End::Gone, &SILENT_END),
        Exit::Code(NOT_EXECUTABLE | NOT_FOUND) => (End::Failed, &NOT_INSTALLED),
        Exit::Signal(INTERRUPT) => (End::Interrupted, &KILLED),
        Exit::Code(code) if code == SIGNAL_BASE + INTERRUPT => (End::Interrupted, &KILLED),
        Exit::Code(code) if code > SIGNAL_BASE && code <= SIGNAL_BASE + SIGNAL_MAX => {
            (End::Gone, &KILLED)
        }
        Exit::Signal(_) => (End::Gone, &KILLED),
        Exit::Code(_) => (End::Failed, &CRASHED),
    }
}

/// The end of a turn that nobody told the end of.
pub(super) fn gone(exit: Exit, last_words: &str) -> Seen {
    let (reason, failure) = of_exit(exit);
    let how = match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    };
    // What it complained about last may have nothing to do with it.
    Seen::Ended { reason, error: Some(failure.with(&format!("{how}\n{last_words}"))) }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.failure.code)?;
        let line = self.detail.lines().next().unwrap_or_default();
        if line.is_empty() { Ok(()) } else { write!(f, " ({line})") }
    }
}
