//! One batch from its first lock to its last answer.

use std::collections::BTreeMap;
use std::slice;

use baton_domain::Refusal;
use baton_domain::decide::due_at;
use baton_domain::limits::SILENCE_MAX;
use baton_domain::project::Project;

use super::claims::Claimed;
use super::connections::Lent;
use super::heads::{self, Group};
use super::ink::Done;
use super::load::{self, Entered};
use super::look::{self, Wanted};
use super::manner::{Manner, Tasks};
use super::orders::Fail;
use super::pen::{self, Heads};
use super::room::{Room, Spot};
use super::step::{Cause, Goal, Step};
use super::trouble::Trouble;
use super::{Shared, amnesty, claims, time};
use crate::order::Committed;
use crate::{Error, Freed};

/// How often a batch that stood in somebody's way is tried again.
const TRIES: usize = 6;

/// What came of a batch.
#[derive(Default)]
pub(super) struct Answered {
    /// What each step is answered with; nothing if it was left out because somebody holds what it is
    /// about.
    pub(super) answers: Vec<Option<Result<Committed, Error>>>,
    /// What claims that were left out had stepped over.
    pub(super) stepped_over: Tasks,
}

/// What came of one step so far.
enum Judged {
    Answer(Result<Box<Done>, Error>),
    /// A claim that may find something further down.
    Hungry,
    /// Somebody else holds what it is about.
    LeftOut,
}

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
pub(super) async fn run(shared: &Shared, steps: &[Step<'_>], manner: Manner<'_>) -> Answered {
    let told = match repeat(shared, steps, manner).await {
        Ok(answered) => return answered,
        Err(Ended::Trouble(Trouble::Broken(_) | Trouble::Raced(_))) if steps.len() > 1 => {
            let mut all = Answered::default();
            for step in steps {
                let one = Box::pin(run(shared, slice::from_ref(step), manner)).await;
                all.answers.extend(one.answers);
                all.stepped_over.extend(one.stepped_over);
            }
            return all;
        }
        Err(ended) => ended,
    };
    let answers = steps.iter().map(|_| Some(Err(told.told()))).collect();
    Answered { answers, ..Answered::default() }
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

async fn repeat(
    shared: &Shared,
    steps: &[Step<'_>],
    manner: Manner<'_>,
) -> Result<Answered, Ended> {
    let mut tries = 0;
    loop {
        tries += 1;
        let mut lent = manner.connections(shared).get().await?;
        let ended = match once(shared, &mut lent, steps, manner, tries > 1).await {
            Ok(answered) => {
                lent.done();
                return Ok(answered);
            }
            Err(ended) => ended,
        };
        ended.undo(&mut lent).await;
        drop(lent);
        match &ended {
            Ended::Silence if tries < TRIES => amnesty::grant(shared, manner).await?,
            Ended::Trouble(Trouble::ClockSet) if tries < TRIES => {
                time::settle_for(shared, manner).await?;
            }
            Ended::Trouble(Trouble::Raced(_)) if steps.len() == 1 && tries < TRIES => {}
            Ended::Trouble(Trouble::Again(why) | Trouble::Stale(why)) if tries < TRIES => {
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

/// Ends a transaction; a connection that cannot even do that is thrown away.
pub(super) async fn roll_back(lent: &mut Lent<'_>) {
    if !lent.client.is_closed() && lent.query("ROLLBACK", vec![]).await.is_ok() {
        lent.done();
    }
}

/// Ends a transaction that failed. A connection on which something broke is thrown away with it, for
/// it may break again.
pub(super) async fn undo(lent: &mut Lent<'_>, trouble: &Trouble) {
    match trouble {
        Trouble::Broken(_) | Trouble::Stale(_) | Trouble::Lost(_) => {}
        Trouble::Again(_)
        | Trouble::Raced(_)
        | Trouble::Full
        | Trouble::Busy(_)
        | Trouble::ClockSet => roll_back(lent).await,
    }
}

async fn once(
    shared: &Shared,
    lent: &mut Lent<'_>,
    steps: &[Step<'_>],
    manner: Manner<'_>,
    lock_all: bool,
) -> Result<Answered, Ended> {
    lent.begun();
    let Entered { mut room, waiting, guess } = load::enter(shared, lent, steps, manner).await?;
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
    let groups = lanes.groups(&room, steps);
    claims::want_pools(&room, &groups, steps, lock_all, &mut wanted);
    look::look_again(shared, lent, &mut room, &wanted).await?;
    let guessed = guess.map(|guess| guess.holds(&mut room, &groups)).transpose()?.flatten();
    let locked = guessed.is_some();
    let mut groups = guessed.unwrap_or(groups);
    let (judged, stepped_over) =
        judge_all(shared, lent, &mut room, &mut groups, steps, locked).await?;
    manner.judged();
    let heads = finish(lent, &room).await?;
    let answers = judged.into_iter().map(|judged| match judged {
        Judged::Answer(Ok(done)) => Some(Ok(with_position(*done, &room, &heads))),
        Judged::Answer(Err(error)) => Some(Err(error)),
        Judged::Hungry => Some(Err(Error::Refused(Refusal::NothingClaimable))),
        Judged::LeftOut => None,
    });
    let answers = answers.collect();
    shared.after_commit(room, &heads);
    Ok(Answered { answers, stepped_over })
}

/// Judges every step, and claims that found nothing again as long as there may be more heads. The first
/// heads may have been locked already.
async fn judge_all(
    shared: &Shared,
    lent: &mut Lent<'_>,
    room: &mut Room,
    groups: &mut [Group],
    steps: &[Step<'_>],
    locked: bool,
) -> Result<(Vec<Judged>, Tasks), Trouble> {
    let mut judged: Vec<Judged> = steps.iter().map(|_| Judged::Hungry).collect();
    let mut stepped_over = Tasks::new();
    for round in 0..heads::ROUNDS {
        if round > 0 || !locked {
            heads::lock(shared, lent, room, groups, steps, round).await?;
        }
        for (at, step) in steps.iter().enumerate() {
            if matches!(judged[at], Judged::Hungry) {
                judged[at] = judge(shared, room, step, at, groups)?;
            }
        }
        stepped_over.extend(groups.iter().flat_map(Group::stepped_over));
        let hungry = |at: usize| matches!(judged[at], Judged::Hungry);
        let left = groups.iter_mut().map(|group| group.keep(hungry)).filter(|any| *any).count();
        if left == 0 {
            break;
        }
    }
    Ok((judged, stepped_over))
}

/// Commits what there is to commit. From the moment that it is sent, a lost connection means that
/// nobody knows.
async fn finish(lent: &mut Lent<'_>, room: &Room) -> Result<Heads, Ended> {
    let repeats = room.is_followed && room.is_repeated();
    if !repeats && !pen::is_needed(room) {
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
            | Trouble::Stale(_)
            | Trouble::ClockSet
            | Trouble::Broken(_) => Self::Trouble(trouble),
        }
    }

    /// Ends the transaction that ended like this.
    pub(super) async fn undo(&self, lent: &mut Lent<'_>) {
        match self {
            Self::Silence => roll_back(lent).await,
            Self::Trouble(trouble) => undo(lent, trouble).await,
            // Nobody knows what is on this connection: it is thrown away.
            Self::Unknown(_) => {}
        }
    }
}

/// Judges one step.
fn judge(
    shared: &Shared,
    room: &mut Room,
    step: &Step<'_>,
    at: usize,
    groups: &[Group],
) -> Result<Judged, Trouble> {
    if step.is_held_elsewhere(room) {
        return Ok(Judged::LeftOut);
    }
    let judged = match (&step.cause, &step.goal) {
        (Cause::Due | Cause::Owed(_), _) => pass(shared, room, step),
        (Cause::Order, _) => match room.replay(step) {
            Ok(Some(replayed)) => return Ok(Judged::Answer(Ok(Box::new(replayed)))),
            Ok(None) if shared.is_full() && !step.ends => Err(Fail::Answer(Error::DiskFull)),
            Ok(None) => match &step.goal {
                Goal::Next(_) => match room.claim(shared, step, groups, at) {
                    Ok(Claimed::Taken(done)) => Ok(*done),
                    Ok(Claimed::Hungry) => return Ok(Judged::Hungry),
                    Ok(Claimed::SteppedOver) => return Ok(Judged::LeftOut),
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
            Ok(Judged::Answer(Ok(Box::new(done))))
        }
        Err(Fail::Answer(error)) => Ok(Judged::Answer(Err(error))),
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
            room.written.told.push((step.tenant, row));
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
