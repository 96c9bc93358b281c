//! What a stolen folder tells.

use std::fs;
use std::sync::Arc;

use super::{KNOWN, how, token, wish};
use crate::chance::SystemChance;
use crate::home;
use crate::identity::{Denied, Identity};

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
    fs::remove_file(folder.join("pepper")).expect("it is there");
    let denied = open().authenticate(&new).await.expect_err("the pepper is another one");
    assert!(matches!(denied, Denied::Unauthenticated), "{denied:?}");
}
