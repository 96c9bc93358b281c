//! What the server says of attempts.

use baton_domain::ids::AttemptId;

use crate::protocol::{Ask, Down, Resume, Standing};

use super::super::course::{At, Said};

/// What a driver is told.
#[derive(Clone, Debug)]
pub enum Word {
    /// By the server.
    Said(Said),
    /// Its lease was renewed: so long its agent may live without another one.
    Renewed { until: At },
    /// Somebody wants to know what its agent said after this line.
    Listen { after: u64 },
    /// The server is not there.
    Cut,
    /// The worker ends, and the attempt with it.
    Drain,
    /// It is acknowledged what its project asks for.
    Bound,
    /// What it submitted is to be checked by these commands.
    Check(Vec<Ask>),
}

/// What a frame of the server means to an attempt, and to which.
#[must_use]
pub fn word_of(down: &Down) -> Option<(AttemptId, Word)> {
    Some(match down {
        Down::Answer(it) => {
            let (id, text) = (it.id.as_str().to_owned(), it.text.as_str().to_owned());
            (it.attempt, Word::Said(Said::Answer { id, text }))
        }
        Down::Cancel(it) => (it.attempt, Word::Said(Said::Cancel(it.why))),
        Down::Fenced(it) => (it.attempt, Word::Said(Said::Fenced(it.code.clone()))),
        Down::Checkpointed(it) => (it.attempt, Word::Said(Said::Checkpointed)),
        Down::Listen(it) => (it.attempt, Word::Listen { after: it.after }),
        Down::Stands(it) => {
            let asks = it.asks.clone().filter(|_| it.how == Standing::Verifying);
            let word = asks.map_or(Word::Said(Said::Stands(it.how)), Word::Check);
            (it.attempt, word)
        }
        Down::Bound(it) => (it.attempt, Word::Bound),
        Down::Welcome(_)
        | Down::Dispatch(_)
        | Down::Ack(_)
        | Down::Renewed(_)
        | Down::Drain(_)
        | Down::Trouble(_) => return None,
    })
}

/// That a lease was renewed which was asked for then. Whoever owns the agent kills it two thirds after that,
/// however late the answer came: the server counts on it.
#[must_use]
pub fn renewed(asked: u64, lease_ms: u64) -> Word {
    Word::Renewed { until: At(asked).plus(lease_ms / 3 * 2) }
}

/// What a welcome says of an attempt that it resumes, to a hello of then.
#[must_use]
pub fn words_of(resume: &Resume, asked: u64) -> Vec<Word> {
    let mut words = vec![];
    words.extend(resume.lease_ms.map(|lease_ms| renewed(asked, lease_ms)));
    words.extend(resume.stands.map(|how| Word::Said(Said::Stands(how))));
    words.extend(resume.stop.map(|why| Word::Said(Said::Cancel(why))));
    words.extend(resume.fenced.clone().map(|code| Word::Said(Said::Fenced(code))));
    words
}
