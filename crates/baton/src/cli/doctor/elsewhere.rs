//! A database elsewhere: what can be wrong with it, and what helps.

use std::path::Path;

use baton_store::postgres::backup::{self, Edition};

use super::facts::{Database, Facts, pepper_at};
use crate::surroundings;

/// Looks at the database that the environment names, in the place of the one in the folder.
pub(super) async fn look(facts: &mut Facts, folder: &Path, named: &surroundings::Database) {
    let own = folder.join("pepper");
    let pepper = named.pepper_file.as_deref().unwrap_or(&own);
    facts.database_changed_at = None;
    match backup::about(named.url.reveal()).await {
        Ok(Edition { version: 0, .. }) => facts.database = Database::Absent,
        Ok(Edition { version, incarnation, pepper: known }) => {
            facts.database = Database::Sound { version, incarnation };
            facts.pepper = pepper_at(pepper, known);
        }
        Err(error) => {
            let fix = match &error {
                backup::Error::Open(error) => error.fix(),
                backup::Error::Exists(_)
                | backup::Error::NotEmpty
                | backup::Error::NoTool(_)
                | backup::Error::Tool(..)
                | backup::Error::Damaged(_)
                | backup::Error::Fault { .. }
                | backup::Error::Io(..) => "baton audit verify",
            };
            facts.database = Database::Elsewhere { why: error.to_string(), fix };
        }
    }
}
