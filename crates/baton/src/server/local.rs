//! The key of whoever runs the server, in a file that only that user can read: made once, kept, and
//! made again before it ends.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use baton_domain::ids::{KeyName, PrincipalId};
use baton_domain::key::Kind;
use baton_domain::limits::KEY_LIFETIME_MAX;
use baton_domain::text::Text;
use baton_domain::time::Millis;
use baton_store::KeyRow;
use sha2::{Digest as _, Sha256};

use crate::engine::Engine;
use crate::files::replace;
use crate::identity::{How, Identity, KeyWish};
use crate::tokens::KeyToken;

/// What the key is called where a server has its data for itself.
const NAME: &str = "local";
/// Bytes of the digest that tells servers apart.
const TELLING_BYTES: usize = 4;
/// A key with less than this left is exchanged for a new one at the start.
const LEFT_MIN: Millis = Millis::hours(24 * 30);
/// What may be read of the file: a key, and a little more to see that it is none.
const FILE_BYTES_MAX: u64 = 256;
/// What others may do with the file: nothing.
const OTHERS: u32 = 0o077;
/// Keys of a tenant that are looked through; there are never more live ones.
const KEYS_LOOKED_THROUGH: usize = 500;

/// What the key of one of many servers on one database is called: another one must not take it for
/// its own, whose file was lost.
pub fn name_among(folder: &Path) -> String {
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let host = rustix::system::uname().nodename().to_bytes().to_vec();
    let told = Sha256::new().chain_update(host).chain_update(folder.as_os_str().as_encoded_bytes());
    let told: String =
        told.finalize().iter().take(TELLING_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("{NAME}-{told}")
}

/// Sees to it that the file holds a good key, by this name or the usual one.
pub async fn provide(
    path: &Path,
    name: Option<String>,
    engine: &Engine,
    identity: &Arc<Identity>,
) -> Result<(), String> {
    if let Some(kept) = read(path).map_err(|error| error.to_string())?
        && is_good(&kept, engine, identity).await?
    {
        return Ok(());
    }
    let name = name.unwrap_or_else(|| NAME.to_owned());
    let token = make(&name, engine, identity).await.map_err(|error| error.to_string())?;
    replace(path, format!("{}\n", token.reveal()).as_bytes()).map_err(|error| error.to_string())
}

async fn is_good(kept: &str, engine: &Engine, identity: &Identity) -> Result<bool, String> {
    let caller = match identity.authenticate(kept).await {
        Ok(caller) => caller,
        Err(crate::identity::Denied::Unauthenticated) => return Ok(false),
        Err(crate::identity::Denied::Unavailable(error)) => return Err(error.to_string()),
    };
    // A key that was made before there were as many operations does not allow the new ones.
    let whole = caller.scopes == identity.local_owner().scopes;
    let Some(id) = &caller.key else { return Ok(false) };
    let found = engine.key(id).await.map_err(|error| error.to_string())?;
    let left = found.map(|found| found.credential.key.expires_at.since(engine.now()));
    Ok(whole && left.is_some_and(|left| left >= LEFT_MIN))
}

/// A new secret for the key that is there, if its file was lost; otherwise a new key.
/// Two names take turns: the next key is made before the last one ends.
async fn make(
    name: &str,
    engine: &Engine,
    identity: &Arc<Identity>,
) -> Result<KeyToken, baton_store::Error> {
    let names = [name.to_owned(), format!("{name}-2")];
    let owner = identity.local_owner();
    let how = || How { origin: origin(), trace: None, request: None };
    let page = identity.list(&owner, None, KEYS_LOOKED_THROUGH).await?;
    let now = engine.now();
    let live = |name: &str| -> Option<&KeyRow> {
        page.rows.iter().find(|row| row.key.name.as_str() == name && row.key.is_live(now))
    };
    let usable = names.iter().find_map(|name| {
        live(name).filter(|row| {
            row.key.scopes == *owner.scopes && row.key.expires_at.since(now) >= LEFT_MIN
        })
    });
    let made = if let Some(row) = usable {
        identity.rotate(&owner, how(), &row.key.id, Some(Millis(0))).await?
    } else {
        let name = names.iter().find(|name| live(name).is_none()).unwrap_or(&names[0]);
        let wish = KeyWish {
            name: KeyName::new(name)?,
            principal: PrincipalId::new("owner")?,
            kind: Kind::Person,
            scopes: vec!["all".into()],
            lifetime: Some(KEY_LIFETIME_MAX),
        };
        identity.create(&owner, how(), wish).await?
    };
    Ok(made.token.expect("without a request key nothing is replayed"))
}

fn origin() -> Text<64> {
    Text::new("origin", "serve").expect("a plain word is a text")
}

/// What the file holds; none if there is none. One that others can read is no secret any more.
fn read(path: &Path) -> io::Result<Option<String>> {
    let file = match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    if file.metadata()?.mode() & OTHERS != 0 {
        return Err(io::Error::other(
            "others may read it: remove it, and start again for a new key",
        ));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(Some(text.trim_end().to_owned()))
}
