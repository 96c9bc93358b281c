//! One connection: statements are prepared once and sent in flushes, each of which costs one round
//! trip however many statements are in it.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use super::trouble::Trouble;

/// Something to put into a statement, and what the database calls its type.
pub(super) type Param = (Box<dyn ToSql + Sync + Send>, Type);

/// A value whose type is known without asking the database.
pub(super) trait Typed: ToSql + Sync + Send + 'static {
    const TYPE: Type;
}

macro_rules! typed {
    ($($value:ty: $name:ident;)*) => {$(
        impl Typed for $value {
            const TYPE: Type = Type::$name;
        }
    )*};
}

typed! {
    bool: BOOL;
    i16: INT2;
    i32: INT4;
    i64: INT8;
    String: TEXT;
    Vec<u8>: BYTEA;
    Option<i64>: INT8;
    Option<String>: TEXT;
    Option<Vec<u8>>: BYTEA;
    Vec<bool>: BOOL_ARRAY;
    Vec<i32>: INT4_ARRAY;
    Vec<i64>: INT8_ARRAY;
    Vec<Option<i64>>: INT8_ARRAY;
    Vec<String>: TEXT_ARRAY;
    Vec<Vec<u8>>: BYTEA_ARRAY;
}

pub(super) fn param<T: Typed>(value: T) -> Param {
    (Box::new(value), T::TYPE)
}

/// Values for a statement.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::postgres::wire::param($value)),*]
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
    /// Whether a pooler is between: what was prepared in one transaction is not there in the next.
    pooled: bool,
    /// How long a flush may take: longer than everything in it may, by the bounds of its statements.
    within: Duration,
    driver: Driver,
}

/// Whoever carries bytes for a connection, and what it noticed.
pub(super) struct Driver {
    pub(super) task: AbortHandle,
    /// The server has warned of something since it was last asked.
    pub(super) warned: Arc<AtomicBool>,
}

impl Conn {
    pub(super) fn new(client: Client, pooled: bool, driver: Driver) -> Self {
        Self { client, prepared: HashMap::new(), pooled, within: super::READ_WITHIN, driver }
    }

    /// The same with another bound for each flush.
    pub(super) fn bounded(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    /// Whether the server has warned of anything since this was last asked.
    pub(super) fn was_warned(&self) -> bool {
        self.driver.warned.swap(false, Ordering::Relaxed)
    }

    /// Sends everything, then waits for everything. The first failure counts: what was sent after it
    /// in the same transaction did not happen, its end included.
    pub(super) async fn send(&mut self, flush: Flush) -> Result<Answers, Trouble> {
        self.send_kept(&flush).await
    }

    /// The same of what may be sent once more, on another connection. A network that swallows
    /// everything tells nobody, so no answer in time is as good as a connection that is gone.
    pub(super) async fn send_kept(&mut self, flush: &Flush) -> Result<Answers, Trouble> {
        let (within, task) = (self.within, self.driver.task.clone());
        match tokio::time::timeout(within, self.send_and_wait(flush)).await {
            Ok(answers) => answers,
            Err(_) => {
                task.abort();
                Err(Trouble::Lost(format!("no answer within {} s", within.as_secs())))
            }
        }
    }

    async fn send_and_wait(&mut self, flush: &Flush) -> Result<Answers, Trouble> {
        for (sql, _) in flush.calls.iter().filter(|_| !self.pooled) {
            if !self.prepared.contains_key(sql) {
                let statement = self.client.prepare(sql).await?;
                self.prepared.insert(sql, statement);
            }
        }
        let calls = flush.calls.iter().map(|(sql, params)| {
            let (client, statement) = (&self.client, self.prepared.get(sql));
            Box::pin(async move {
                let values = params.iter().map(|(value, _)| &**value as &(dyn ToSql + Sync));
                match statement {
                    Some(statement) => client.query(statement, &values.collect::<Vec<_>>()).await,
                    None => {
                        let types = params.iter().map(|(_, name)| name.clone());
                        client.query_typed(sql, &values.zip(types).collect::<Vec<_>>()).await
                    }
                }
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
