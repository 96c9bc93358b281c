//! What a stolen folder tells.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use baton_store::sqlite::OpenError;

use super::{KNOWN, how, token, wish};
use crate::chance::SystemChance;
use crate::home;
use crate::identity::Identity;

#[tokio::test]
async fn a_stolen_store_holds_no_key_and_opens_nothing_without_its_pepper() {
    let place = tempfile::tempdir().expect("there is room for a folder");
    let folder = place.path().join("home");
    let open = || {
        let engine = home::open(&folder, None, Arc::new(SystemChance)).expect("it opens");
        Arc::new(Identity::new(Arc::new(engine), Arc::new(SystemChance), KNOWN))
    };
    let identity = open();
    let owner = identity.local_owner();
    let made = identity.create(&owner, how(), wish("ann", &["all"])).await;
    let made = made.expect("the operator may");
    let key = token(&made);
    let turned = identity.rotate(&owner, how(), &made.row.key.id, None).await;
    let new = token(&turned.expect("the operator may"));
    identity.authenticate(&key).await.expect("it is valid");
    assert_eq!(identity.note_uses().await.expect("it is noted"), 1);
    for file in fs::read_dir(&folder).expect("it is a folder") {
        let path = file.expect("it reads").path();
        let bytes = fs::read(&path).unwrap_or_default();
        for secret in [&key[20..63], &new[20..63]] {
            let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!found, "{} holds a secret", path.display());
        }
    }
    drop(identity);
    let identity = open();
    for key in [&key, &new] {
        identity.authenticate(key).await.expect("a key outlives its server");
    }
    drop(identity);
    let pepper = folder.join("pepper");
    fs::remove_file(&pepper).expect("it is there");
    let opened = home::open(&folder, None, Arc::new(SystemChance));
    assert!(matches!(opened, Err(home::Error::Secrets(_))), "a lost pepper is not replaced");
    fs::write(&pepper, "7".repeat(64)).expect("there is room");
    fs::set_permissions(&pepper, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let opened = home::open(&folder, None, Arc::new(SystemChance));
    let wrong = matches!(opened, Err(home::Error::Store(OpenError::WrongPepper)));
    assert!(wrong, "another pepper opens nothing");
}
