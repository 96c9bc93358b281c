//! The stores that everything here is asked of.

use std::sync::Arc;

use baton_domain::decide;
use baton_store::sqlite::{Options, SqliteStore};
use baton_store::{Bell, Clock, Store};
use baton_testkit::tables;
use tempfile::TempDir;

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

/// One test of every fact on every store: another store is another line.
#[macro_export]
macro_rules! on_every_ground {
    ($($fact:ident),+ $(,)?) => {
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
        // Salts need not be random here, and must not be equal.
        let mut salt = 0_u8;
        let chance = move |bytes: &mut [u8]| {
            for byte in bytes {
                salt = salt.wrapping_add(37);
                *byte = salt;
            }
        };
        let mut options = Options::new(decide, Box::new(chance), self.0.path());
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
