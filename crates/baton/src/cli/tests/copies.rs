//! Copies, their way back, and the walk of the chains.

use std::path::Path;
use std::sync::Arc;

use baton_domain::ids::{AttemptId, KeyName, Nonce, PrincipalId, TaskId, TenantId};
use baton_domain::key::Kind;
use baton_domain::text::Text;
use baton_store::blobs::{Blobs as _, DirectoryBlobs, Put, Settings, Urgency};
use serde_json::Value;

use super::{Machine, typed};
use crate::chance::{SeededChance, SystemChance};
use crate::identity::{How, Identity, KeyWish};
use crate::tokens::{Keyring, Secrets, Speaker};
use crate::{home, operations};

/// Opens the folder once, so that there is something to copy.
fn made(machine: &Machine) -> u64 {
    let engine = home::open(&machine.data(), None, Arc::new(SystemChance)).expect("a new folder");
    engine.incarnation()
}

fn keyring(folder: &Path, incarnation: u64) -> Keyring {
    let secrets = Secrets::open(&folder.join("pepper"), &SeededChance::new(1));
    Keyring::new(secrets.expect("it was made"), incarnation)
}

#[tokio::test]
async fn a_copy_comes_back_as_another_life_in_which_old_tokens_are_dead() {
    let machine = Machine::silent();
    let before = made(&machine);
    let tenant = TenantId::new("local").expect("a name");
    let held = AttemptId { task: TaskId(1), number: 1 };
    let token = keyring(&machine.data(), before).mint(
        &tenant,
        held.task,
        held.number,
        Nonce(7),
        Speaker::Solo,
    );
    let copy = machine.path("copy.db");
    let printed = machine.types(&["backup", typed(&copy)]).await;
    assert_eq!(printed.exit, 0, "{}", printed.err);
    assert!(printed.out.starts_with("…/copy.db is a whole copy"), "{}", printed.out);
    let printed = machine.types(&["backup", typed(&copy)]).await;
    assert_eq!(printed.exit, 5, "nothing is written over");
    let printed = machine.types(&["restore", typed(&copy), "--json"]).await;
    assert_eq!(printed.exit, 0, "{}", printed.err);
    let body: Value = serde_json::from_str(&printed.out).expect("an object");
    assert!(body["aside"].as_str().expect("it was moved").contains("before-restore-"));
    let after = made(&machine);
    assert_ne!(after, before);
    let verify = |life| keyring(&machine.data(), life).verify(token.reveal(), &tenant).is_ok();
    assert!(verify(before) && !verify(after));
}

#[tokio::test]
async fn what_came_back_by_other_means_is_given_another_life_where_it_is() {
    let machine = Machine::silent();
    let before = made(&machine);
    let printed = machine.types(&["restore", "--here", "--json"]).await;
    assert_eq!(printed.exit, 0, "{}", printed.err);
    assert_ne!(made(&machine), before);
    for mistyped in [&["restore"][..], &["restore", "copy.db", "--here"]] {
        assert_eq!(machine.types(mistyped).await.exit, 2, "{mistyped:?}");
    }
}

fn identity_of(machine: &Machine) -> Arc<Identity> {
    let engine = home::open(&machine.data(), None, Arc::new(SystemChance)).expect("it opens");
    Arc::new(Identity::new(Arc::new(engine), Arc::new(SystemChance), operations::scopes()))
}

async fn key_in(machine: &Machine) -> String {
    let identity = identity_of(machine);
    let wish = KeyWish {
        name: KeyName::new("fox").expect("a name"),
        principal: PrincipalId::new("fox").expect("a name"),
        kind: Kind::Agent,
        scopes: vec!["agent".to_owned()],
        lifetime: None,
    };
    let origin = Text::new("origin", "test").expect("a text");
    let how = How { origin, trace: None, request: None };
    let made = identity.create(&identity.local_owner(), how, wish).await.expect("it is made");
    made.token.expect("it is new").reveal().to_owned()
}

async fn is_good(machine: &Machine, key: &str) -> bool {
    identity_of(machine).authenticate(key).await.is_ok()
}

#[tokio::test]
async fn no_key_of_a_copy_is_good_unless_it_is_asked_for() {
    let machine = Machine::silent();
    let key = key_in(&machine).await;
    let copy = machine.path("copy.db");
    assert_eq!(machine.types(&["backup", typed(&copy)]).await.exit, 0);
    assert!(is_good(&machine, &key).await);
    let kept = machine.types(&["restore", typed(&copy), "--keep-keys"]).await;
    assert_eq!(kept.exit, 0, "{}", kept.err);
    assert!(kept.out.contains("also those that were revoked later"), "{}", kept.out);
    assert!(is_good(&machine, &key).await);
    let usual = machine.types(&["restore", typed(&copy)]).await;
    assert_eq!(usual.exit, 0, "{}", usual.err);
    assert!(usual.out.contains("1 key was revoked"), "{}", usual.out);
    assert!(!is_good(&machine, &key).await);
    let walked = machine.types(&["audit", "verify"]).await;
    assert_eq!(walked.exit, 0, "{}", walked.out);
}

#[tokio::test]
async fn nothing_is_restored_under_a_server() {
    let machine = Machine::silent();
    made(&machine);
    let copy = machine.path("copy.db");
    machine.types(&["backup", typed(&copy)]).await;
    let engine = home::open(&machine.data(), None, Arc::new(SystemChance)).expect("it opens");
    let printed = machine.types(&["restore", typed(&copy)]).await;
    assert_eq!(printed.exit, 5, "{}", printed.err);
    assert!(
        printed.err.starts_with("error: Another baton works in this folder\n"),
        "{}",
        printed.err
    );
    assert!(printed.err.contains("in use by another baton"), "{}", printed.err);
    drop(engine);
}

#[tokio::test]
async fn the_walk_tells_what_holds() {
    let machine = Machine::silent();
    let printed = machine.types(&["audit", "verify"]).await;
    assert_eq!(printed.exit, 3, "there is nothing to walk");
    made(&machine);
    let printed = machine.types(&["audit", "verify", "--json"]).await;
    assert_eq!(printed.exit, 0, "{}", printed.err);
    let body: Value = serde_json::from_str(&printed.out).expect("an object");
    assert_eq!((&body["fault"], &body["seals_checked"]), (&Value::Null, &true.into()));
}

#[tokio::test]
async fn blobs_go_with_a_copy_and_come_back_with_it() {
    let machine = Machine::silent();
    made(&machine);
    let place = machine.data().join("blobs");
    let open = || {
        let free = DirectoryBlobs::free_space_of(&place);
        DirectoryBlobs::open(&place, Settings::default(), free).expect("nobody has it").0
    };
    let put = Put {
        expected: None,
        size_max: 100,
        urgency: Urgency::Ending,
        now: std::time::SystemTime::UNIX_EPOCH,
    };
    let blobs = open();
    let stored = blobs.put("local", &mut &b"a bundle"[..], &put).expect("there is room");
    let copy = machine.path("copy.db");
    // While a server has them open.
    let printed = machine.types(&["backup", typed(&copy), "--json"]).await;
    assert_eq!(printed.exit, 0, "{}", printed.err);
    let body: Value = serde_json::from_str(&printed.out).expect("an object");
    assert_eq!((&body["blobs"]["count"], &body["blobs"]["bytes"]), (&1.into(), &8.into()));
    drop(blobs);
    std::fs::remove_dir_all(&place).expect("it is ours");
    let printed = machine.types(&["restore", typed(&copy)]).await;
    assert_eq!(printed.exit, 0, "{}", printed.err);
    assert!(
        printed.out.contains("Blobs that came back from …/copy.db.blobs: 1"),
        "{}",
        printed.out
    );
    let blobs = open();
    assert_eq!(blobs.get_verified("local", &stored.digest).expect("it is back").size, 8);
    let another = machine.path("another.db");
    std::fs::create_dir(machine.path("another.db.blobs")).expect("there is room");
    let printed = machine.types(&["backup", typed(&another)]).await;
    assert_eq!((printed.exit, another.exists()), (5, false), "nothing is written over");
}
