//! Baton's folder: the store, the secrets, and an engine on top of them.

use std::future::pending;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use baton_store::chain::SigningKey;
use baton_store::postgres::{self, PostgresStore};
use baton_store::sqlite::backup;
use baton_store::sqlite::{OpenError, Options, Place, SqliteStore};
use baton_store::{Clock, PepperDigest, Store};
use tokio::time::sleep;

use crate::chance::Chance;
use crate::clock::SystemStopwatch;
use crate::engine::{Engine, Parts};
use crate::tokens::{self, Secrets, secret_file};
use crate::waiters::Waiters;

/// Why the folder could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store is not to be had.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The database elsewhere is not.
    #[error(transparent)]
    Database(#[from] postgres::OpenError),
    /// The secrets are not.
    #[error(transparent)]
    Secrets(#[from] tokens::Error),
}

/// Refuses a folder that somebody works in. It looks and makes nothing; opening makes sure.
pub fn is_free(folder: &Path) -> Result<(), Error> {
    match backup::is_in_use(folder) {
        Ok(true) => Err(OpenError::InUse(folder.into()).into()),
        // What cannot be told now is told when the folder is opened.
        Ok(false) | Err(_) => Ok(()),
    }
}

/// Opens the folder, or makes one. Without a clock the store brings its own.
pub fn open(
    folder: &Path,
    clock: Option<Arc<dyn Clock>>,
    chance: Arc<dyn Chance>,
) -> Result<Engine, Error> {
    // Nothing is made in a folder that is not ours, or that somebody else uses.
    let place = Place::enter(folder)?;
    let waiters = Waiters::new();
    let salts = Arc::clone(&chance);
    let fill = Box::new(move |bytes: &mut [u8]| salts.fill(bytes));
    let mut options = Options::new(baton_domain::decide, fill, folder);
    options.clock = clock;
    options.bell = waiters.bell();
    let sealing = secret_file(&folder.join("seal.key"), chance.as_ref())?;
    options.signing = Some(SigningKey::from_bytes(&sealing));
    let pepper = folder.join("pepper");
    // Secrets are made before the database, so one without them has lost them.
    if folder.join("baton.db").exists() && !pepper.exists() {
        return Err(tokens::Error::Missing { path: pepper }.into());
    }
    let secrets = Secrets::open(&pepper, chance.as_ref())?;
    options.pepper = Some(PepperDigest(secrets.verifier()));
    let store = SqliteStore::open_in(place, folder, options)?;
    let clock = store.clock();
    Ok(assemble(Arc::new(store), clock, waiters, chance, (secrets, sealing)))
}

/// An engine on a store, which knows what must never be written down.
fn assemble(
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    waiters: Arc<Waiters>,
    chance: Arc<dyn Chance>,
    (secrets, sealing): (Secrets, [u8; 32]),
) -> Engine {
    let (incarnation, stopwatch) = (store.incarnation(), Arc::new(SystemStopwatch::start()));
    let parts = Parts { store, waiters, clock, stopwatch, chance, secrets, incarnation };
    let engine = Engine::new(parts);
    Secrets::new(sealing).tell(engine.redactor());
    engine
}

/// How often it is looked whether the folder is still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Waits until the database is no longer where it was opened. It could still be written, by name of
/// nobody: what is answered then would be lost with the process.
pub fn is_gone(folder: &Path) -> impl Future<Output = ()> + use<> {
    let path = folder.join("baton.db");
    let which = move || std::fs::metadata(&path).map(|about| (about.dev(), about.ino()));
    // Looked at before anybody is told that the server is ready, and may move the folder.
    let opened = which();
    async move {
        // A store that keeps its data elsewhere cannot lose them here.
        let Ok(opened) = opened else { return pending().await };
        loop {
            sleep(LOOK_EVERY).await;
            match which() {
                Ok(now) if now == opened => {}
                Err(error) if error.kind() != ErrorKind::NotFound => {}
                Ok(_) | Err(_) => return,
            }
        }
    }
}

/// Opens a database elsewhere, which other servers may share. The folder is this server's own; the
/// pepper is everybody's, and so is what seals are signed with.
pub async fn open_elsewhere(
    folder: &Path,
    url: &str,
    pepper_file: Option<&Path>,
    chance: Arc<dyn Chance>,
) -> Result<Engine, Error> {
    let place = Place::enter(folder)?;
    let own = folder.join("pepper");
    let pepper = pepper_file.unwrap_or(&own);
    // A file that somebody named is there, or the name is wrong: nothing is made under it.
    if pepper_file.is_some() && !pepper.exists() {
        return Err(tokens::Error::Missing { path: pepper.into() }.into());
    }
    let is_new = !pepper.exists();
    let secrets = Secrets::open(pepper, chance.as_ref())?;
    let waiters = Waiters::new();
    let salts = Arc::clone(&chance);
    let fill = Box::new(move |bytes: &mut [u8]| salts.fill(bytes));
    let mut options = postgres::Options::new(baton_domain::decide, fill);
    options.bell = waiters.bell();
    options.signing = Some(SigningKey::from_bytes(&secrets.sealing()));
    options.pepper = Some(PepperDigest(secrets.verifier()));
    options.place = Some(place);
    let store = match PostgresStore::open(url, options).await {
        Ok(store) => store,
        Err(error) => {
            // A pepper that this start has made is no good to anybody.
            if is_new {
                drop(std::fs::remove_file(pepper));
            }
            return Err(error.into());
        }
    };
    let (clock, sealing) = (store.clock(), secrets.sealing());
    Ok(assemble(Arc::new(store), clock, waiters, chance, (secrets, sealing)))
}

/// Opens a copy that is about to come back, to change what is in it. It has no secrets of its own,
/// so nobody can prove anything to it.
pub fn open_copy(folder: &Path, chance: Arc<dyn Chance>) -> Result<Engine, Error> {
    let salts = Arc::clone(&chance);
    let fill = Box::new(move |bytes: &mut [u8]| salts.fill(bytes));
    let store = SqliteStore::open(folder, Options::new(baton_domain::decide, fill, folder))?;
    let mut nobodys = [0; 32];
    chance.fill(&mut nobodys);
    let (clock, incarnation) = (store.clock(), store.incarnation());
    Ok(Engine::new(Parts {
        store: Arc::new(store),
        waiters: Waiters::new(),
        clock,
        stopwatch: Arc::new(SystemStopwatch::start()),
        chance,
        secrets: Secrets::new(nobodys),
        incarnation,
    }))
}

/// The same of a copy in a database elsewhere.
pub async fn open_copy_elsewhere(url: &str, chance: Arc<dyn Chance>) -> Result<Engine, Error> {
    let salts = Arc::clone(&chance);
    let fill = Box::new(move |bytes: &mut [u8]| salts.fill(bytes));
    let options = postgres::Options::new(baton_domain::decide, fill).even_unfinished();
    let store = PostgresStore::open(url, options).await?;
    let mut nobodys = [0; 32];
    chance.fill(&mut nobodys);
    let (clock, incarnation) = (store.clock(), store.incarnation());
    Ok(Engine::new(Parts {
        store: Arc::new(store),
        waiters: Waiters::new(),
        clock,
        stopwatch: Arc::new(SystemStopwatch::start()),
        chance,
        secrets: Secrets::new(nobodys),
        incarnation,
    }))
}

#[cfg(test)]
mod tests;
