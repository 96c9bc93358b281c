//! The stores that everything here is asked of.

use std::sync::{Arc, OnceLock};

use baton_domain::decide;
use baton_store::postgres::{self, PostgresStore};
use baton_store::sqlite::{self, SqliteStore};
use baton_store::{Bell, Clock, Store};
use baton_testkit::postgres::Database;
use baton_testkit::tables;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::serving::folder;
use crate::world::memory;

/// Where a scene is kept. Each gets a fresh place.
pub trait Ground: Send + Sync {
    /// Opens a store there.
    fn open(&self, clock: Arc<dyn Clock>, bell: Bell) -> Arc<dyn Store>;

    /// Everything that lies there, to the last byte, but when keys were last used; nothing where
    /// the store is all there is.
    fn dump(&self) -> String;
}

/// A ground that is not trodden yet.
pub type Fresh = fn() -> Box<dyn Ground>;

/// One test of every fact on every store: another store is another line. What is asked of surfaces,
/// or needs many worlds, is not asked on Postgres, where a world takes its time.
#[macro_export]
macro_rules! on_every_ground {
    ($($fact:ident),+ $(,)?) => {
        $crate::on_every_ground!(embedded: $($fact),+);
        $crate::on_every_ground!(@on postgres, $crate::ground::Postgres::fresh, $($fact)+);
    };
    (embedded: $($fact:ident),+ $(,)?) => {
        $crate::on_every_ground!(@on memory, $crate::ground::Memory::fresh, $($fact)+);
        $crate::on_every_ground!(@on sqlite, $crate::ground::Sqlite::fresh, $($fact)+);
    };
    (@on $name:ident, $fresh:path, $($fact:ident)+) => {
        mod $name {
            $(
                #[tokio::test]
                async fn $fact() {
                    super::$fact($fresh).await;
                }
            )+
        }
    };
}

/// The model.
pub struct Memory;

impl Memory {
    pub fn fresh() -> Box<dyn Ground> {
        Box::new(Self)
    }
}

impl Ground for Memory {
    fn open(&self, clock: Arc<dyn Clock>, bell: Bell) -> Arc<dyn Store> {
        memory(clock, bell)
    }

    fn dump(&self) -> String {
        String::new()
    }
}

/// What the disk seems to have, so that two scenes tell the same.
const ROOM: u64 = 1 << 40;

/// A real file.
pub struct Sqlite(TempDir);

impl Sqlite {
    pub fn fresh() -> Box<dyn Ground> {
        Box::new(Self(folder()))
    }
}

impl Ground for Sqlite {
    fn open(&self, clock: Arc<dyn Clock>, bell: Bell) -> Arc<dyn Store> {
        let mut options = sqlite::Options::new(decide, Box::new(salts()), self.0.path());
        options.clock = Some(clock);
        options.bell = bell;
        options.free_bytes = Arc::new(|| Some(ROOM));
        // No power is cut here, so nobody needs to wait for the disk.
        let options = options.weakened("OFF");
        Arc::new(SqliteStore::open(self.0.path(), options).expect("a fresh folder opens"))
    }

    fn dump(&self) -> String {
        tables::dump(&self.0.path().join("baton.db"), &["keys.used_at"])
    }
}

/// Salts need not be random here, and must not be equal.
fn salts() -> impl FnMut(&mut [u8]) + Send {
    let mut salt = 0_u8;
    move |bytes: &mut [u8]| {
        for byte in bytes {
            salt = salt.wrapping_add(37);
            *byte = salt;
        }
    }
}

/// A database in the cluster that all tests share.
pub struct Postgres(Database);

impl Postgres {
    pub fn fresh() -> Box<dyn Ground> {
        Box::new(Self(Database::fresh()))
    }
}

impl Ground for Postgres {
    fn open(&self, clock: Arc<dyn Clock>, bell: Bell) -> Arc<dyn Store> {
        let mut options = postgres::Options::new(decide, Box::new(salts())).careless();
        options.clock = Some(clock);
        options.bell = bell;
        let url = self.0.url();
        Arc::new(apart(PostgresStore::open(&url, options)).expect("an empty database opens"))
    }

    fn dump(&self) -> String {
        let tables = self.0.say(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
             WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1",
        );
        let rows = |table: &String| {
            format!("SELECT '{table} ' || (to_jsonb(t) - 'used_at')::text FROM {table} t")
        };
        let all: Vec<_> = tables.iter().map(rows).collect();
        self.0.say(&format!("{} ORDER BY 1", all.join(" UNION ALL "))).join("\n")
    }
}

/// Waits for something on a runtime that belongs to no test: what it began lives on there.
fn apart<T: Send>(begun: impl Future<Output = T> + Send) -> T {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().expect("threads are to be had")
    });
    // A test is on a runtime itself, which may not wait for another on the same thread.
    std::thread::scope(|scope| {
        scope.spawn(|| runtime.block_on(begun)).join().expect("opening does not panic")
    })
}
