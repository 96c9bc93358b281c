//! How values become rows: the same in every database.

use baton_domain::history::Past;
use baton_domain::lane::Lane;
use baton_domain::task::{Flow, Stage};
use baton_domain::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::chain::{Rows, SALT_BYTES};
use crate::ruling::Ruling;

/// Fills bytes with chance.
pub type Chance = Box<dyn FnMut(&mut [u8]) + Send>;

/// Salts are drawn from the source of chance in one go and handed out in pieces.
const SALTS_AT_ONCE: usize = 256;

/// Databases count in signed numbers; ours are all far below where that matters.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The other way round.
pub(crate) fn nat(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// The text of a body.
pub(crate) fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("our own types have a text form")
}

/// What the bytes of a body hold; bytes that do not parse are a damaged row.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("a row cannot be read: {error}"))
}

/// The word of a stage, for finding; the body is the truth.
pub(crate) fn stage_word(stage: &Stage) -> &str {
    match stage {
        Stage::Backlog => "backlog",
        Stage::Working(name) => name.as_str(),
        Stage::Ended(_) => "ended",
        Stage::Archived(_) => "archived",
    }
}

/// Since when an ended task waits to be put away.
pub(crate) fn kept_since(flow: &Flow) -> Option<Timestamp> {
    match flow.stage {
        Stage::Ended(_) => flow.ended_at,
        Stage::Backlog | Stage::Working(_) | Stage::Archived(_) => None,
    }
}

/// A number for a lane. It only finds: who may take from a lane is asked of the lane itself.
pub(crate) fn lane_number(lane: &Lane) -> i64 {
    let digest = Sha256::digest(format!("{lane:?}"));
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    i64::from_be_bytes(first)
}

/// The rows that an entry will hold on to, as they will be written.
pub(crate) fn rows_of(ruling: &Ruling) -> Rows {
    let body = |record: &Past| match record {
        Past::Attempt(row) => json(row),
        Past::Run(row) => json(row),
        Past::Checkpoint(row) => json(row),
    };
    Rows {
        flow: json(&ruling.task.flow),
        brief: ruling.task.brief.as_ref().filter(|_| ruling.brief_changed).map(json),
        records: ruling.records.iter().map(body).collect(),
    }
}

/// Salts, one for each entry.
pub(crate) struct Salts {
    chance: Chance,
    drawn: Vec<u8>,
}

impl Salts {
    pub(crate) fn new(chance: Chance) -> Self {
        Self { chance, drawn: vec![] }
    }

    pub(crate) fn next(&mut self) -> [u8; SALT_BYTES] {
        if self.drawn.is_empty() {
            self.drawn.resize(SALTS_AT_ONCE * SALT_BYTES, 0);
            (self.chance)(&mut self.drawn);
        }
        let mut salt = [0; SALT_BYTES];
        salt.copy_from_slice(&self.drawn[self.drawn.len() - SALT_BYTES..]);
        self.drawn.truncate(self.drawn.len() - SALT_BYTES);
        salt
    }
}
