//! One batch from its first lock to its last answer.

use std::collections::BTreeMap;

use baton_domain::decide::due_at;
use baton_domain::limits::SILENCE_MAX;
use baton_domain::project::Project;

use super::connections::Lent;
use super::ink::Done;
use super::load;
use super::look::{self, Wanted};
use super::orders::Fail;
use super::pen::{self, Heads};
use super::room::{Room, Spot};
use super::step::{Cause, Goal, Step};
use super::trouble::Trouble;
use super::{Shared, amnesty, claims};
use crate::order::Committed;
use crate::{Error, Freed};

/// How often a batch that stood in somebody's way is tried again.
const TRIES: usize = 6;

/// What each step is answered with.
pub(super) type Answered = Vec<Result<Committed, Error>>;

/// Why a batch was not carried out.
pub(super) enum Ended {
    /// Nothing of it happened.
    Trouble(Trouble),
    /// It was committed, or not.
    Unknown(String),
    /// Nobody has watched the time; that is put right first.
    Silence,
}

impl From<Trouble> for Ended {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// Carries out steps, all of them in one transaction if nothing stands in the way. A step that
/// breaks is found by carrying out each by itself.
pub(super) async fn run(shared: &Shared, steps: &[Step<'_>]) -> Answered {
    let told = match repeat(shared, steps).await {
        Ok(answered) => return answered,
        Err(Ended::Trouble(Trouble::Broken(_) | Trouble::Raced(_))) if steps.len() > 1 => {
            let mut answered = vec![];
            for step in steps {
                answered.extend(Box::pin(run(shared, std::slice::from_ref(step))).await);
            }
            return answered;
        }
        Err(ended) => ended,
    };
    steps.iter().map(|_| Err(told.told())).collect()
}

impl Ended {
    fn told(&self) -> Error {
        match self {
            Self::Trouble(trouble) => trouble.told(),
            Self::Unknown(why) => Error::Unknown(why.clone()),
            Self::Silence => Error::Overloaded,
        }
    }
}

async fn repeat(shared: &Shared, steps: &[Step<'_>]) -> Result<Answered, Ended> {
    let mut tries = 0;
    loop {
        tries += 1;
        let mut lent = shared.writers.get().await?;
        let ended = match once(shared, &mut lent, steps, tries > 1).await {
            Ok(answered) => {
                lent.done();
                return Ok(answered);
            }
            Err(ended) => ended,
        };
        undo(&mut lent).await;
        drop(lent);
        match &ended {
            Ended::Silence if tries < TRIES => amnesty::grant(shared).await?,
            Ended::Trouble(Trouble::Raced(_)) if steps.len() == 1 && tries < TRIES => {}
            Ended::Trouble(Trouble::Again(why)) if tries < TRIES => {
                tracing::debug!(why, "a batch is tried again");
            }
            // Nothing of it was sent to be committed, so it may be tried on another connection.
            Ended::Trouble(Trouble::Lost(why)) if tries < 2 => {
                tracing::warn!(why, "a batch lost its connection and is tried on another");
            }
            Ended::Silence | Ended::Unknown(_) | Ended::Trouble(_) => {
                if let Ended::Trouble(Trouble::Full) = ended {
                    shared.fill_up();
                }
                return Err(ended);
            }
        }
    }
}

/// Ends a transaction that failed; a connection that cannot even do that is thrown away.
pub(super) async fn undo(lent: &mut Lent<'_>) {
    if !lent.client.is_closed() && lent.query("ROLLBACK", vec![]).await.is_ok() {
        lent.done();
    }
}

async fn once(
    shared: &Shared,
    lent: &mut Lent<'_>,
    steps: &[Step<'_>],
    lock_all: bool,
) -> Result<Answered, Ended> {
    lent.begun();
    let (mut room, waiting) = load::enter(shared, lent, steps).await?;
    if room.now.since(room.watched_at) > SILENCE_MAX {
        return Err(Ended::Silence);
    }
    let lanes = claims::lanes(shared, lent, waiting).await?;
    let mut wanted = Wanted::of(&room, steps);
    if !wanted.records.is_empty() {
        // Who may work where, and what is limited, must be known before anything else is asked.
        let records = std::mem::take(&mut wanted.records);
        let first = Wanted { records, ..Wanted::default() };
        look::look_again(shared, lent, &mut room, &first).await?;
        wanted = Wanted::of(&room, steps);
    }
    let mut groups = lanes.groups(&room, steps);
    claims::want_pools(&room, &groups, steps, lock_all, &mut wanted);
    look::look_again(shared, lent, &mut room, &wanted).await?;
    claims::lock_heads(shared, lent, &mut room, &mut groups, steps, false).await?;
    let mut done: Vec<Option<Result<Done, Error>>> = steps.iter().map(|_| None).collect();
    for (at, step) in steps.iter().enumerate() {
        done[at] = judge(shared, &mut room, step, at, &groups, false)?;
    }
    let hungry = |group: &mut claims::Group| group.keep(|at| done[at].is_none());
    if groups.iter_mut().map(hungry).fold(false, |any, group| any | group) {
        claims::lock_heads(shared, lent, &mut room, &mut groups, steps, true).await?;
        for (at, step) in steps.iter().enumerate() {
            if done[at].is_none() {
                done[at] = judge(shared, &mut room, step, at, &groups, true)?;
            }
        }
    }
    let heads = finish(lent, &room).await?;
    let answered = done.into_iter().map(|done| match done {
        Some(Ok(done)) => Ok(with_position(done, &room, &heads)),
        Some(Err(error)) => Err(error),
        None => Err(Error::Refused(baton_domain::Refusal::NothingClaimable)),
    });
    let answered = answered.collect();
    shared.after_commit(room, &heads);
    Ok(answered)
}

/// Commits what there is to commit. From the moment that it is sent, a lost connection means that
/// nobody knows.
async fn finish(lent: &mut Lent<'_>, room: &Room) -> Result<Heads, Ended> {
    if !pen::is_needed(room) {
        lent.query(pen::COMMIT, vec![]).await?;
        return Ok(Heads::new());
    }
    pen::commit(lent, room, vec![]).await.map_err(Ended::of_commit)
}

impl Ended {
    pub(super) fn of_commit(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Lost(why) => Self::Unknown(why),
            Trouble::Again(_)
            | Trouble::Raced(_)
            | Trouble::Full
            | Trouble::Busy(_)
            | Trouble::Broken(_) => Self::Trouble(trouble),
        }
    }
}

/// Judges one step. None if a claim may find something further down.
fn judge(
    shared: &Shared,
    room: &mut Room,
    step: &Step<'_>,
    at: usize,
    groups: &[claims::Group],
    last_try: bool,
) -> Result<Option<Result<Done, Error>>, Trouble> {
    let judged = match (&step.cause, &step.goal) {
        (Cause::Due | Cause::Owed(_), _) => pass(shared, room, step),
        (Cause::Order, _) => match room.replay(step) {
            Ok(Some(replayed)) => return Ok(Some(Ok(replayed))),
            Ok(None) if shared.is_full() && !step.ends => Err(Fail::Answer(Error::DiskFull)),
            Ok(None) => match &step.goal {
                Goal::Next(_) => match room.claim(shared, step, groups, at, last_try) {
                    Ok(Some(done)) => Ok(done),
                    Ok(None) => return Ok(None),
                    Err(fail) => Err(fail),
                },
                Goal::Task(..) | Goal::Birth(..) | Goal::Nothing => room.carry_out(shared, step),
            },
            Err(fail) => Err(fail),
        },
    };
    match judged {
        Ok(done) => {
            room.remember(step, &done);
            Ok(Some(Ok(done)))
        }
        Err(Fail::Answer(error)) => Ok(Some(Err(error))),
        Err(Fail::Trouble(trouble)) => Err(trouble),
    }
}

/// Lets time pass for a task, or tells it what another owes it. Time asks for nothing, so a refusal
/// only means that there is nothing to do.
fn pass(shared: &Shared, room: &mut Room, step: &Step<'_>) -> Result<Done, Fail> {
    let nothing = Committed::of_no_task(room.now, None);
    let mut done = Done { committed: nothing, place: None, entry: None, tenant: step.tenant };
    match step.cause {
        Cause::Owed(row) if !room.owed.contains(&row) => return Ok(done),
        Cause::Due if !is_due(room, step) => return Ok(done),
        Cause::Due | Cause::Owed(_) | Cause::Order => {}
    }
    match room.carry_out(shared, step) {
        Ok(carried_out) => done = carried_out,
        Err(Fail::Answer(Error::Refused(_))) => {}
        Err(other) => return Err(other),
    }
    match step.cause {
        Cause::Owed(row) => {
            room.written.told.push(row);
            done.committed.swept.reactions = 1;
        }
        Cause::Due => done.committed.swept.due = 1,
        Cause::Order => {}
    }
    Ok(done)
}

/// Whether time still has something to do with a task, now that it is locked.
fn is_due(room: &Room, step: &Step<'_>) -> bool {
    let ledger = room.tenants.get(&step.tenant);
    let kept = ledger.zip(step.task()).and_then(|(ledger, task)| ledger.tasks.get(&task));
    let Some((ledger, kept)) = ledger.zip(kept) else { return false };
    let gone = Project::gone(kept.flow.project.clone());
    let project = ledger.projects.get(&kept.flow.project).map_or(&gone, |project| project);
    let lease = kept.lease.as_ref();
    let ended = lease.is_some_and(|lease| lease.ends_at(room.amnesty) <= room.now);
    let due = due_at(&kept.flow, lease, project, room.amnesty);
    ended || due.is_some_and(|due| due <= room.now)
}

pub(super) fn with_position(done: Done, room: &Room, heads: &Heads) -> Committed {
    let mut committed = done.committed;
    committed.position = match done.place {
        None => None,
        Some(Spot::At(position)) => Some(position),
        Some(Spot::New(place)) => heads.get(&done.tenant).map(|head| {
            let entries = room.written.entries.iter().filter(|it| it.tenant == done.tenant);
            head + place - entries.count() as u64
        }),
    };
    committed
}

impl Shared {
    /// What became claimable is told before anybody is answered.
    pub(super) fn after_commit(&self, mut room: Room, heads: &Heads) {
        let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
        for entry in &room.written.entries {
            *counts.entry(entry.tenant).or_default() += 1;
        }
        if pen::is_needed(&room) {
            self.committed(room.now);
        }
        for (tenant, count) in counts {
            let (Some(ledger), Some(head)) = (room.tenants.get(&tenant), heads.get(&tenant)) else {
                continue;
            };
            room.freed.push(Freed::Entries(ledger.id.clone()));
            self.bells.own(tenant, head - count, *head);
        }
        if !room.freed.is_empty() {
            self.bells.ring(&room.freed);
        }
    }
}
