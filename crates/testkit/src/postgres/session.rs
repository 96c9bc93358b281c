//! Somebody else in the database, who may hold what others need: a terminal that was left open, a
//! script that forgot to commit.

use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

use super::admin::first_column;

/// A connection of somebody else's. What it holds is let go of when it is dropped.
pub struct Session {
    client: Client,
    runtime: Option<Runtime>,
}

impl Session {
    pub(super) fn open(url: &str) -> Self {
        let opened = std::thread::scope(|scope| {
            let opening = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(1)
                    .enable_all()
                    .build()
                    .expect("a thread is to be had");
                let client = runtime.block_on(async {
                    let (client, connection) =
                        tokio_postgres::connect(url, NoTls).await.expect("the cluster answers");
                    tokio::spawn(connection);
                    client
                });
                Self { client, runtime: Some(runtime) }
            });
            opening.join()
        });
        opened.expect("the cluster answers")
    }

    /// Says something and stays; gives the first column of what it found.
    ///
    /// # Panics
    /// If the database does not understand.
    pub fn say(&self, statement: &str) -> Vec<String> {
        let runtime = self.runtime.as_ref().expect("it goes only at the end");
        // A thread of its own: the caller may be on a runtime, which must not wait for another.
        let said = std::thread::scope(|scope| {
            let saying = scope.spawn(|| runtime.block_on(self.client.simple_query(statement)));
            saying.join().expect("asking does not panic")
        });
        let said = said.unwrap_or_else(|error| panic!("{statement}: {error}"));
        said.iter().filter_map(first_column).collect()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Whoever drops it may be on a runtime, which must not wait for another.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
