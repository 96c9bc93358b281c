//! What a worker has told of its attempts and nobody has acknowledged: kept in a file per attempt, so
//! that neither a cut nor a crash loses a report.
//!
//! A file is appended to and never changed, one JSON value in a line. The first line opens it with the
//! token of the attempt; then come frames and acknowledgements. A line that was torn by a crash is cut
//! off when the file is opened again. What ends an attempt is on the disk before `tell` answers; the
//! rest may be lost with the machine, but not with the process. What a full disk does not take is held in
//! memory, and is not sent before it is in the file: whoever comes back after a crash finds it in the spool.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use baton_domain::ids::AttemptId;
use serde::{Deserialize, Serialize};

use crate::files::{make_folder, replace};
use crate::protocol::{Alive, SLOTS_MAX, Secret, Up, read, write};

use super::course::Told;

/// What the file of an attempt is called.
const FILE: &str = "outbox";
/// Frames of one attempt that may wait; a network that is away for a day leaves fewer.
pub const FRAMES_MAX: usize = 4_096;
/// The same for frames that end something, which are never refused for want of room.
const ENDS_MAX: usize = FRAMES_MAX + 64;
/// The longest file that is read: as many frames as may wait, at their usual length many times over.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// A file that is longer than this is written anew once nothing in it waits.
const WORN_BYTES: u64 = 1 << 20;
/// Attempts that are kept at once: those that a hello may name.
const ATTEMPTS_MAX: usize = SLOTS_MAX;

/// The outboxes of all attempts of a worker.
#[derive(Debug)]
pub struct Outboxes {
    root: PathBuf,
    boxes: BTreeMap<AttemptId, Outbox>,
}

/// Whether something of the attempt of this folder is not settled.
#[must_use]
pub fn is_in(folder: &Path) -> bool {
    folder.join(FILE).exists()
}

/// What one attempt has told and nobody has acknowledged.
#[derive(Debug)]
struct Outbox {
    folder: PathBuf,
    file: File,
    bytes: u64,
    token: Option<Secret>,
    told: Told,
    last_seq: u64,
    acked: u64,
    waiting: VecDeque<Waiting>,
    /// What the disk did not take, in order.
    held_up: VecDeque<Up>,
}

/// A frame that waits.
#[derive(Clone, Debug)]
struct Waiting {
    seq: u64,
    text: String,
    late: bool,
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The attempt, as it was when the file was written anew.
    Open(Open),
    /// A frame.
    Told { seq: u64, text: String },
    /// Every frame up to this number was carried out.
    Acked { seq: u64 },
    /// This one will never be.
    Settled { seq: u64 },
}

/// What the first line says.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Open {
    attempt: AttemptId,
    token: Option<Secret>,
    told: Told,
    last_seq: u64,
}

impl Outboxes {
    /// Opens what is in this folder: one folder per attempt, named after it.
    pub fn open(root: &Path) -> io::Result<Self> {
        make_folder(root)?;
        let mut boxes = BTreeMap::new();
        for entry in fs::read_dir(root)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(attempt) = name.to_str().and_then(|name| name.parse::<AttemptId>().ok())
            else {
                continue;
            };
            if !entry.path().join(FILE).exists() {
                continue;
            }
            if boxes.len() >= ATTEMPTS_MAX {
                return Err(io::Error::other(format!(
                    "{} holds more than {ATTEMPTS_MAX} attempts",
                    root.display()
                )));
            }
            boxes.insert(attempt, Outbox::read(&entry.path(), attempt)?);
        }
        Ok(Self { root: root.to_owned(), boxes })
    }

    /// Where an attempt has its files.
    #[must_use]
    pub fn folder(&self, attempt: AttemptId) -> PathBuf {
        self.root.join(attempt.to_string())
    }

    /// Begins an attempt: from now on it is named in every hello, whatever happens to the process.
    pub fn begin(&mut self, attempt: AttemptId, token: Secret) -> io::Result<()> {
        if self.boxes.contains_key(&attempt) {
            return Ok(());
        }
        if self.boxes.len() >= ATTEMPTS_MAX {
            let why = format!("{ATTEMPTS_MAX} attempts are kept already");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, why));
        }
        let folder = self.folder(attempt);
        make_folder(&folder)?;
        let open = Open { attempt, token: Some(token), told: Told::default(), last_seq: 0 };
        self.boxes.insert(attempt, Outbox::write_new(&folder, open)?);
        Ok(())
    }

    /// Keeps a frame, and answers with its number. One that ends something is on the disk then. If the disk
    /// takes nothing, it has no number yet, and is kept later.
    ///
    /// # Errors
    /// If there is no room for it, or it is none of an attempt.
    pub fn tell(&mut self, frame: Up) -> io::Result<Option<u64>> {
        let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
        let (attempt, _) =
            frame.concerns().ok_or_else(|| wrong("the frame concerns no attempt"))?;
        let of = self.boxes.get_mut(&attempt).ok_or_else(|| wrong("the attempt was not begun"))?;
        of.tell(frame)
    }

    /// Whether the disk did not take something.
    #[must_use]
    pub fn is_held_up(&self) -> bool {
        self.boxes.values().any(|of| !of.held_up.is_empty())
    }

    /// Tries again to keep what the disk did not take; whether that is all of it.
    pub fn keep_again(&mut self) -> bool {
        let mut all = true;
        for of in self.boxes.values_mut() {
            all &= of.keep_again();
        }
        all
    }

    /// Everything of an attempt up to this number was carried out.
    pub fn acked(&mut self, attempt: AttemptId, seq: u64) -> io::Result<()> {
        self.boxes.get_mut(&attempt).map_or(Ok(()), |of| of.acked(attempt, seq))
    }

    /// This frame will never be carried out.
    pub fn settled(&mut self, attempt: AttemptId, seq: u64) -> io::Result<()> {
        self.boxes.get_mut(&attempt).map_or(Ok(()), |of| of.settled(seq))
    }

    /// The attempt is over at the server: only what may still be told late waits on.
    pub fn fenced(&mut self, attempt: AttemptId) -> io::Result<()> {
        let Some(of) = self.boxes.get_mut(&attempt) else { return Ok(()) };
        let early: Vec<u64> = of.waiting.iter().filter(|it| !it.late).map(|it| it.seq).collect();
        early.into_iter().try_for_each(|seq| of.settled(seq))
    }

    /// Forgets an attempt whose every frame is settled; false if something still waits.
    pub fn forget(&mut self, attempt: AttemptId) -> io::Result<bool> {
        match self.boxes.get(&attempt) {
            Some(of) if of.unsettled() > 0 => return Ok(false),
            Some(of) => match fs::remove_file(of.folder.join(FILE)) {
                // Somebody cleared it away: it is forgotten all the same.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            },
            None => return Ok(true),
        }
        self.boxes.remove(&attempt);
        Ok(true)
    }

    /// The attempts that there are, as a hello names them.
    #[must_use]
    pub fn alive(&self) -> Vec<Alive> {
        let alive = |(attempt, of): (&AttemptId, &Outbox)| Alive {
            attempt: *attempt,
            token: of.token.clone(),
            last_seq: of.last_seq,
            question: of.told.asked().cloned(),
        };
        self.boxes.iter().map(alive).collect()
    }

    /// What waits of every attempt after the number that was sent last, in order; at most so many.
    #[must_use]
    pub fn unsent(
        &self,
        sent: &BTreeMap<AttemptId, u64>,
        count_max: usize,
    ) -> Vec<(AttemptId, u64, String)> {
        let of_one = |(attempt, of): (&AttemptId, &Outbox)| {
            let after = sent.get(attempt).copied().unwrap_or(0);
            let waiting = of.waiting.iter().filter(move |it| it.seq > after);
            let attempt = *attempt;
            waiting.map(move |it| (attempt, it.seq, it.text.clone())).collect::<Vec<_>>()
        };
        self.boxes.iter().flat_map(of_one).take(count_max).collect()
    }

    /// What was told of an attempt, acknowledged or not.
    #[must_use]
    pub fn told(&self, attempt: AttemptId) -> Told {
        self.boxes.get(&attempt).map(|of| of.told.clone()).unwrap_or_default()
    }

    /// How many frames of an attempt wait.
    #[must_use]
    pub fn waiting(&self, attempt: AttemptId) -> usize {
        self.boxes.get(&attempt).map_or(0, Outbox::unsettled)
    }
}

impl Outbox {
    fn unsettled(&self) -> usize {
        self.waiting.len() + self.held_up.len()
    }

    fn tell(&mut self, frame: Up) -> io::Result<Option<u64>> {
        let room = if frame.is_terminal() { ENDS_MAX } else { FRAMES_MAX };
        if self.unsettled() >= room {
            let why = format!("{FRAMES_MAX} frames of the attempt wait already");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, why));
        }
        // What cannot be written at all is no matter of the disk.
        write(&frame).map_err(io::Error::other)?;
        if self.held_up.is_empty() {
            match self.keep(frame.clone()) {
                Ok(seq) => return Ok(Some(seq)),
                Err(error) => {
                    tracing::error!(%error, "the disk does not take a report: it is held")
                }
            }
        }
        self.held_up.push_back(frame);
        Ok(None)
    }

    fn keep_again(&mut self) -> bool {
        while let Some(frame) = self.held_up.front().cloned() {
            if self.keep(frame).is_err() {
                return false;
            }
            self.held_up.pop_front();
        }
        true
    }

    fn keep(&mut self, frame: Up) -> io::Result<u64> {
        let ends = frame.is_terminal();
        let seq = self.last_seq + 1;
        let frame = frame.numbered(seq);
        let text = write(&frame).map_err(io::Error::other)?;
        self.append(&Line::Told { seq, text: text.clone() })?;
        // From here on the number is used up, whether the disk has it or not.
        self.last_seq = seq;
        self.take_in(seq, text, &frame);
        // It is in the file by now: whether that outlives the machine is tried once.
        if ends && let Err(error) = self.file.sync_data() {
            tracing::error!(%error, "the disk may not have a report");
        }
        Ok(seq)
    }

    fn take_in(&mut self, seq: u64, text: String, frame: &Up) {
        self.told.take(frame);
        let late = matches!(frame, Up::Stopped(_) | Up::Usage(_) | Up::Checkpoint(_));
        self.waiting.push_back(Waiting { seq, text, late });
    }

    fn acked(&mut self, attempt: AttemptId, seq: u64) -> io::Result<()> {
        let seq = seq.min(self.last_seq);
        if seq <= self.acked && self.waiting.front().is_none_or(|first| first.seq > seq) {
            return Ok(());
        }
        self.note(&Line::Acked { seq });
        self.acked = self.acked.max(seq);
        self.waiting.retain(|it| it.seq > seq);
        if self.waiting.is_empty() && self.bytes > WORN_BYTES {
            let (token, told) = (self.token.clone(), self.told.clone());
            let open = Open { attempt, token, told, last_seq: self.last_seq };
            let held_up = std::mem::take(&mut self.held_up);
            *self = Self { held_up, ..Self::write_new(&self.folder, open)? };
        }
        Ok(())
    }

    fn settled(&mut self, seq: u64) -> io::Result<()> {
        if !self.waiting.iter().any(|it| it.seq == seq) {
            return Ok(());
        }
        self.note(&Line::Settled { seq });
        self.waiting.retain(|it| it.seq != seq);
        Ok(())
    }

    /// Notes what the server said. If the disk does not take it, it says so again to whoever asks again.
    fn note(&mut self, line: &Line) {
        if let Err(error) = self.append(line) {
            tracing::warn!(%error, "the disk does not take what the server said of a report");
        }
    }

    fn append(&mut self, line: &Line) -> io::Result<()> {
        let bytes = line_of(line)?;
        if let Err(error) = self.file.write_all(&bytes) {
            // Half of a line must not be the beginning of the next one.
            self.file.set_len(self.bytes)?;
            self.file.seek(SeekFrom::Start(self.bytes))?;
            return Err(error);
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Writes a file whose only line opens it, whole or not at all.
    fn write_new(folder: &Path, open: Open) -> io::Result<Self> {
        let (path, bytes) = (folder.join(FILE), line_of(&Line::Open(open.clone()))?);
        replace(&path, &bytes)?;
        let mut file = OpenOptions::new().write(true).open(&path)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self::opened(folder, file, bytes.len() as u64, open))
    }

    fn opened(folder: &Path, file: File, bytes: u64, open: Open) -> Self {
        let Open { token, told, last_seq, .. } = open;
        let (folder, waiting, acked) = (folder.to_owned(), VecDeque::new(), last_seq);
        let held_up = VecDeque::new();
        Self { folder, file, bytes, token, told, last_seq, acked, waiting, held_up }
    }

    /// Reads a file up to the last whole line, and cuts off the rest.
    fn read(folder: &Path, attempt: AttemptId) -> io::Result<Self> {
        let path = folder.join(FILE);
        let broken = |why: &str| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display()))
        };
        let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
        let mut bytes = vec![];
        (&file).take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut lines = bytes[..end].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let first = lines.next().ok_or_else(|| broken("it does not say whose it is"))?;
        let Ok(Line::Open(open)) = serde_json::from_slice(first) else {
            return Err(broken("it does not say whose it is"));
        };
        if open.attempt != attempt {
            return Err(broken("it is of another attempt"));
        }
        file.set_len(end as u64)?;
        file.seek(SeekFrom::End(0))?;
        let mut read_back = Self::opened(folder, file, end as u64, open);
        for line in lines {
            let line = serde_json::from_slice(line).map_err(|_| broken("a line is damaged"))?;
            read_back.replay(line).map_err(|why| broken(&why))?;
        }
        Ok(read_back)
    }

    fn replay(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::Open(_) => return Err("it is opened twice".to_owned()),
            Line::Told { seq, text } => {
                let frame: Up = read(&text).map_err(|error| error.to_string())?;
                self.last_seq = seq;
                self.take_in(seq, text, &frame);
            }
            Line::Acked { seq } => {
                self.acked = seq;
                self.waiting.retain(|it| it.seq > seq);
            }
            Line::Settled { seq } => self.waiting.retain(|it| it.seq != seq),
        }
        Ok(())
    }
}

fn line_of(line: &Line) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    Ok(bytes)
}

#[cfg(test)]
mod tests;
