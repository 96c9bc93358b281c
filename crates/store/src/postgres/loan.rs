//! A database that is borrowed for a while: taken only if there is nothing in it, given back with
//! nothing in it.

use super::address::Address;
use super::backup::{Error, edition};
use super::migrate::{self, BOUNDS, LOCK};
use super::readers::Reader;
use super::trouble::Trouble;
use super::{Chance, open, trust};
use crate::PepperDigest;

/// A borrowed database. Nobody else gets in: it knows one pepper alone, that of the borrower.
pub struct Loan {
    address: Address,
    pepper: PepperDigest,
    /// The role of its readers, if it was not there before.
    role: Option<Reader>,
}

impl Loan {
    /// Takes a database that is empty.
    pub async fn take(url: &str, pepper: PepperDigest, chance: &mut Chance) -> Result<Self, Error> {
        let address = Address::read(url)?;
        let mut conn = open::reach(&address, false).await?;
        if !matches!(migrate::found(&mut conn).await, Ok(0)) {
            return Err(Error::NotEmpty);
        }
        let migrated = migrate::migrate(&mut conn, chance, false).await?;
        // Somebody else may have come first; what they made is theirs.
        if !migrated.is_new || !trust::knows_pepper(&mut conn, &pepper).await? {
            return Err(Error::NotEmpty);
        }
        let role = migrated.is_role_new.then_some(migrated.reader);
        Ok(Self { address, pepper, role })
    }

    /// Takes everything out of it again.
    pub async fn give_back(self) -> Result<(), Error> {
        let broken = |error: tokio_postgres::Error| Error::from(Trouble::from(error));
        let mut conn = open::reach(&self.address, false).await?;
        conn.client.batch_execute("BEGIN").await.map_err(broken)?;
        conn.client.batch_execute(BOUNDS).await.map_err(broken)?;
        conn.client.batch_execute(LOCK).await.map_err(broken)?;
        // Only what was borrowed is taken away: it may have been emptied and filled by others.
        if edition(&mut conn).await?.pepper != Some(self.pepper) {
            return Err(Error::NotEmpty);
        }
        migrate::empty(&mut conn).await?;
        conn.client.batch_execute("COMMIT").await.map_err(broken)?;
        if let Some(role) = self.role {
            role.unmake(&mut conn).await?;
        }
        Ok(())
    }
}
