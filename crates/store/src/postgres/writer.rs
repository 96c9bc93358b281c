//! Takes what waits and has it carried out: a few batches at once, each of which is whatever arrived
//! while the others were on their way.

use std::sync::Arc;

use baton_domain::Refusal;
use baton_domain::key::KeyId;
use baton_domain::time::Timestamp;

use super::records::find_tenant;
use super::step::{Step, is_alone};
use super::trouble::Trouble;
use super::wire::params;
use super::{Shared, audit, batch, keys, records, sweep};
use crate::Error;
use crate::inbox::{Job, Work};
use crate::keys::USES_MAX;
use crate::order::{Aim, Committed};

/// Orders in one transaction: bounds how long the first of them waits.
const BATCH_MAX: usize = 256;

/// Works until the inbox is closed and empty.
pub(super) async fn work(shared: Arc<Shared>) {
    loop {
        let batch = shared.inbox.next(BATCH_MAX).await;
        if batch.is_empty() {
            return;
        }
        let own = Arc::clone(&shared);
        // A panic is the matter of the batch that brought it about: its callers see that nobody
        // knows, and the next batch is taken as ever.
        if tokio::spawn(async move { carry_out(&own, batch).await }).await.is_err() {
            tracing::error!("a batch broke");
        }
    }
}

async fn carry_out(shared: &Shared, batch: Vec<Work>) {
    let (mut together, mut alone, mut rest) = (vec![], vec![], vec![]);
    for work in batch {
        match work {
            Work::Order(job) if !is_alone(&job.order.aim) => together.push(*job),
            Work::Order(job) => alone.push(*job),
            Work::Seal(..) | Work::Uses(..) => rest.push(work),
        }
    }
    if !together.is_empty() {
        let answers = orders(shared, &together).await;
        for (job, answer) in together.into_iter().zip(answers) {
            // A caller that has gone away will find its answer by its request key.
            drop(job.reply.send(answer));
        }
    }
    for job in alone {
        let answer = one(shared, &job).await;
        drop(job.reply.send(answer));
    }
    for work in rest {
        match work {
            Work::Seal(seals, reply) => drop(reply.send(audit::write_seals(shared, seals).await)),
            Work::Uses(uses, reply) => drop(reply.send(touch(shared, uses).await)),
            Work::Order(_) => {}
        }
    }
}

async fn one(shared: &Shared, job: &Job) -> Result<Committed, Error> {
    match &job.order.aim {
        Aim::Sweep(count_max) => sweep::run(shared, *count_max).await,
        Aim::Record(..) | Aim::Key(_) => records::run(shared, &job.order).await,
        Aim::Task(..) | Aim::Birth(..) | Aim::Next(_) => {
            let answers = orders(shared, std::slice::from_ref(job)).await;
            answers.into_iter().next().unwrap_or(Err(Error::Internal("no answer".into())))
        }
    }
}

/// Carries out orders about tasks, those of tenants that nobody has heard of excepted.
async fn orders(shared: &Shared, jobs: &[Job]) -> Vec<Result<Committed, Error>> {
    let mut answers: Vec<Option<Result<Committed, Error>>> = jobs.iter().map(|_| None).collect();
    let (mut steps, mut places) = (vec![], vec![]);
    for (at, job) in jobs.iter().enumerate() {
        match tenant(shared, job).await {
            Ok(tenant) => {
                if let Some(step) = Step::of(&job.order, tenant) {
                    steps.push(step);
                    places.push(at);
                }
            }
            Err(error) => answers[at] = Some(Err(error)),
        }
    }
    if !steps.is_empty() {
        for (at, answer) in places.into_iter().zip(batch::run(shared, &steps).await) {
            answers[at] = Some(answer);
        }
    }
    if !shared.known().aside.is_empty() {
        for job in jobs {
            if let Aim::Task(id, _) = &job.order.aim {
                shared.known().aside.remove(&(job.order.tenant.clone(), *id));
            }
        }
    }
    let nothing = || Err(Error::Internal("no answer".into()));
    answers.into_iter().map(|answer| answer.unwrap_or_else(nothing)).collect()
}

async fn tenant(shared: &Shared, job: &Job) -> Result<i64, Error> {
    let name = &job.order.tenant;
    if let Some(tenant) = shared.known_tenant(name) {
        return Ok(tenant);
    }
    let found = async {
        let mut lent = shared.writers.get().await?;
        find_tenant(&mut lent, name).await
    };
    match found.await.map_err(|trouble: Trouble| trouble.told())? {
        Some(tenant) => {
            shared.know_tenant(name, tenant);
            Ok(tenant)
        }
        None if shared.is_full() && !job.order.ends_work() => Err(Error::DiskFull),
        None => Err(Error::Refused(match &job.order.aim {
            Aim::Next(_) => Refusal::NothingClaimable,
            Aim::Task(..) | Aim::Birth(..) | Aim::Record(..) | Aim::Key(_) | Aim::Sweep(_) => {
                Refusal::NotFound
            }
        })),
    }
}

/// Notes when keys were last used; of a key that is gone nothing is noted.
async fn touch(shared: &Shared, uses: Vec<(KeyId, Timestamp)>) -> Result<(), Error> {
    if shared.is_full() {
        return Ok(());
    }
    let mut latest = std::collections::BTreeMap::new();
    for (id, at) in uses.into_iter().take(USES_MAX) {
        let known = latest.entry(id.as_str().to_owned()).or_insert(at.0);
        *known = at.0.max(*known);
    }
    let (ids, times): (Vec<String>, Vec<i64>) = latest.into_iter().unzip();
    let touched = async {
        let mut lent = shared.writers.get().await?;
        lent.begun();
        lent.query(keys::TOUCH, params![ids, times]).await?;
        lent.done();
        Ok(())
    };
    touched.await.map_err(|trouble: Trouble| trouble.told())
}
