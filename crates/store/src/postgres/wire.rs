//! One connection: statements are prepared once and sent in flushes, each of which costs one round
//! trip however many statements are in it.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::trouble::Trouble;

/// Something to put into a statement.
pub(super) type Param = Box<dyn ToSql + Sync + Send>;

/// Values for a statement.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value) as $crate::postgres::wire::Param),*]
    };
}
pub(super) use params;

/// Statements that are sent together.
#[derive(Default)]
pub(super) struct Flush {
    calls: Vec<(&'static str, Vec<Param>)>,
}

/// What came back, by the place of each statement.
pub(super) struct Answers(Vec<Vec<Row>>);

impl Flush {
    /// Adds a statement; tells where its rows will be.
    pub(super) fn add(&mut self, sql: &'static str, params: Vec<Param>) -> usize {
        self.calls.push((sql, params));
        self.calls.len() - 1
    }
}

impl Answers {
    /// The rows of one statement.
    pub(super) fn rows(&mut self, at: usize) -> Vec<Row> {
        std::mem::take(&mut self.0[at])
    }
}

/// A connection and what was prepared on it.
pub(super) struct Conn {
    pub(super) client: Client,
    prepared: HashMap<&'static str, Statement>,
}

impl Conn {
    pub(super) fn new(client: Client) -> Self {
        Self { client, prepared: HashMap::new() }
    }

    /// Sends everything, then waits for everything. The first failure counts: what was sent after it
    /// in the same transaction did not happen, its end included.
    pub(super) async fn send(&mut self, flush: Flush) -> Result<Answers, Trouble> {
        self.send_kept(&flush).await
    }

    /// The same of what may be sent once more, on another connection.
    pub(super) async fn send_kept(&mut self, flush: &Flush) -> Result<Answers, Trouble> {
        for (sql, _) in &flush.calls {
            if !self.prepared.contains_key(sql) {
                let statement = self.client.prepare(sql).await?;
                self.prepared.insert(sql, statement);
            }
        }
        let calls = flush.calls.iter().map(|(sql, params)| {
            let (client, statement) = (&self.client, &self.prepared[sql]);
            Box::pin(async move {
                let params: Vec<&(dyn ToSql + Sync)> =
                    params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect();
                client.query(statement, &params).await
            })
        });
        let answers = in_order(calls.collect()).await;
        let rows: Result<Vec<_>, _> = answers.into_iter().collect();
        Ok(Answers(rows?))
    }

    /// One statement by itself.
    pub(super) async fn query(
        &mut self,
        sql: &'static str,
        params: Vec<Param>,
    ) -> Result<Vec<Row>, Trouble> {
        let mut flush = Flush::default();
        let at = flush.add(sql, params);
        Ok(self.send(flush).await?.rows(at))
    }
}

/// Drives all futures, each begun before the next: a request is sent when it is first driven.
async fn in_order<F: Future>(futures: Vec<Pin<Box<F>>>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(Some).collect();
    let mut done: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|cx| {
        let mut waiting = false;
        for (future, done) in running.iter_mut().zip(&mut done) {
            let Some(live) = future else { continue };
            match live.as_mut().poll(cx) {
                Poll::Ready(output) => {
                    *done = Some(output);
                    *future = None;
                }
                Poll::Pending => waiting = true,
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    done.into_iter().flatten().collect()
}
