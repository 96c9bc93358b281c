//! Copies and walks of a database elsewhere.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use baton_store::chain::{Audit, SigningKey};
use baton_store::postgres::OpenError;
use baton_store::postgres::backup::{self, Error};
use baton_store::postgres::restoring::Restoring;
use serde_json::json;

use crate::chance::{Chance as _, SystemChance};
use crate::client::Failure;
use crate::home;
use crate::identity::Identity;
use crate::operations;
use crate::problem::Problem;
use crate::surroundings::Database;
use crate::tokens::Secrets;

use super::super::Session;
use super::blobs::Beside;
use super::{broke, revoke, tell, whole};

/// The key that seals are checked with, if the pepper is here. Looking must not make one.
fn trusted(named: &Database, folder: &Path) -> Result<Option<[u8; 32]>, Failure> {
    let own = folder.join("pepper");
    let path = named.pepper_file.as_deref().unwrap_or(&own);
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let secrets = Secrets::open(path, &SystemChance).map_err(|error| {
        Failure::from(Problem::new("internal", error.to_string()).next("baton doctor"))
    })?;
    Ok(Some(SigningKey::from_bytes(&secrets.sealing()).verifying_key().to_bytes()))
}

pub(super) fn refused(error: &Error) -> Failure {
    let problem = |code: &str| Problem::new(code, error.to_string());
    match error {
        Error::Exists(_) => problem("name_taken"),
        Error::NotEmpty => problem("name_taken").next("createdb another_name"),
        Error::NotACopy(_) => problem("malformed").next("baton backup FILE"),
        Error::Pooled => {
            problem("malformed").next("BATON_DATABASE_URL=postgres://… baton restore FILE")
        }
        Error::InUse => problem("in_use").next("stop every `baton serve`, then run this again"),
        Error::Busy => problem("in_use").next("the same command, a little later"),
        Error::Io(_, error) if error.kind() == ErrorKind::NotFound => problem("not_found"),
        Error::Open(error @ OpenError::Unfinished(_)) => problem("in_use").next(error.fix()),
        Error::Empty | Error::Open(OpenError::NotBaton) => {
            problem("not_found").next("baton doctor")
        }
        Error::NoTool(_) => problem("internal").next("apt install postgresql-client"),
        Error::Open(_) | Error::Tool(..) | Error::Damaged(_) | Error::Io(..) => {
            problem("internal").next("baton doctor")
        }
        Error::Fault { .. } => problem("internal").next("baton audit verify"),
    }
    .into()
}

/// Copies the database while it is in use.
pub(super) async fn back_up(named: &Database, folder: &Path, to: &Path) -> Result<Audit, Failure> {
    let trusted = trusted(named, folder)?;
    let audit = backup::back_up(named.url.reveal(), to, trusted.as_ref()).await;
    audit.map_err(|error| refused(&error))
}

/// Walks the database while it is in use; tells whether seals were checked.
pub(super) async fn verify(named: &Database, folder: &Path) -> Result<(Audit, bool), Failure> {
    let trusted = trusted(named, folder)?;
    let audit = backup::verify(named.url.reveal(), trusted.as_ref()).await;
    Ok((audit.map_err(|error| refused(&error))?, trusted.is_some()))
}

/// Brings a copy back into a database without anything in it, or gives the one that is there another
/// life.
pub(super) async fn restore(
    session: &mut Session<'_>,
    named: &Database,
    folder: &Path,
    file: Option<(&Path, &Beside)>,
    keep_keys: bool,
) -> Result<u8, Failure> {
    let trusted = trusted(named, folder)?;
    let mut chance: baton_store::Chance = Box::new(|bytes| SystemChance.fill(bytes));
    let url = named.url.reveal();
    let begun = match file {
        Some((file, _)) => Restoring::begin(file, url, &mut chance, trusted.as_ref()).await,
        None => Restoring::begin_here(url, &mut chance, trusted.as_ref()).await,
    };
    let begun = begun.map_err(|error| refused(&error))?;
    let revoked = match revoke_all(url, keep_keys).await {
        Ok(revoked) => revoked,
        Err(failure) => {
            begun.give_up().await.map_err(|error| refused(&error))?;
            return Err(failure);
        }
    };
    // Before any server may open the database: what a record refers to is there before the record.
    let blobs = match file.map(|(_, beside)| beside.bring_back()).transpose() {
        Ok(blobs) => blobs.unwrap_or_default(),
        Err(failure) => {
            begun.give_up().await.map_err(|error| refused(&error))?;
            return Err(failure);
        }
    };
    let restored = begun.finish().await.map_err(|error| refused(&error))?;
    let incarnation = format!("{:x}", restored.incarnation);
    let body = json!({
        "incarnation": incarnation, "keys_revoked": revoked,
        "entries": restored.audit.entries, "seals": restored.audit.seals, "blobs": blobs.body(),
    });
    let keys = match revoked {
        Some(count) => format!("Keys revoked: {count}; --keep-keys would have left them.\n"),
        None => "Keys are those of that day, also those that were revoked later.\n".to_owned(),
    };
    let text = format!(
        "The database {} life {incarnation}: {}.\n\
         Claim tokens and cursors from before are dead.\n{keys}{}next: baton serve\n",
        if file.is_some() { "holds the copy as" } else { "begins" },
        whole(&restored.audit),
        blobs.told("came back from")
    );
    tell(session, &body, &text);
    Ok(0)
}

/// Revokes every key of a copy that came back, before any server opens it.
async fn revoke_all(url: &str, keep_keys: bool) -> Result<Option<usize>, Failure> {
    if keep_keys {
        return Ok(None);
    }
    let chance = Arc::new(SystemChance);
    let engine = home::open_copy_elsewhere(url, chance.clone()).await;
    let engine = Arc::new(engine.map_err(|error| broke(&error))?);
    revoke(&Arc::new(Identity::new(engine, chance, operations::scopes()))).await.map(Some)
}
