use std::fs;

use baton_domain::contract::Finding;
use baton_domain::ids::{Digest, TaskId};
use baton_domain::text::Reason;
use baton_domain::time::Timestamp;
use serde_json::json;

use crate::cli::tests::{Machine, typed};
use crate::client::tests::Says;
use crate::receipts::{Found, Signer, Statement};
use crate::tokens::Secrets;

fn signed(signer: &Signer) -> String {
    let digest = Digest::new(&"b".repeat(64)).expect("64 digits");
    let reason = Reason::new("reason", "seen by eye").expect("a reason");
    let statement = Statement {
        tenant: "local".parse().expect("a name"),
        task: TaskId(7),
        run: "R-7.2".parse().expect("a run"),
        submission: 9,
        line: "tests".parse().expect("a name"),
        asks: digest.clone(),
        contract: digest,
        tree: None,
        environment: None,
        found: Found::Waived,
        reason: None,
        evidence: None,
        by: "ann".parse().expect("a name"),
        at: Timestamp(1_700_000_000_000),
    };
    signer.sign(&statement.finding(&Finding::Waived { reason })).as_str().to_owned()
}

#[tokio::test]
async fn a_receipt_is_checked_without_a_server_by_a_key_that_is_named() {
    let machine = Machine::silent();
    let signer = Signer::new(&[7; 32]);
    let (file, key) = (machine.path("receipt"), signer.public().digits());
    let verify = ["receipt", "verify", typed(&file), "--key", &key];
    fs::write(&file, signed(&signer) + "\n").expect("a file");
    let printed = machine.types(&verify).await;
    assert_eq!(printed.exit, 0, "{printed:?}");
    let first = "The receipt is genuine: line tests of T-7, R-7.2, is vouched for by ann.\n";
    assert!(printed.out.starts_with(first), "{}", printed.out);
    assert!(printed.out.contains("reason       seen by eye"), "{}", printed.out);

    let text = signed(&signer);
    for at in (0..text.len()).step_by(31) {
        let mut changed = text.clone().into_bytes();
        changed[at] ^= 1;
        fs::write(&file, &changed).expect("a file");
        let printed = machine.types(&verify).await;
        assert_eq!(printed.exit, 1, "byte {at}: {printed:?}");
        assert!(printed.out.starts_with("It proves nothing"), "{}", printed.out);
    }
    fs::write(&file, text + "\n\n").expect("a file");
    assert_eq!(machine.types(&verify).await.exit, 1, "something was added");
    fs::write(&file, signed(&Signer::new(&[8; 32]))).expect("a file");
    let printed = machine.types(&verify).await;
    assert!(printed.out.contains("not among those that are trusted"), "{}", printed.out);
    let bad = machine.types(&["receipt", "verify", typed(&file), "--key", "abc"]).await;
    assert_eq!(bad.exit, 2, "{bad:?}");
    let nowhere = machine.path("no");
    let none = machine.types(&["receipt", "verify", typed(&nowhere), "--key", &key]).await;
    assert_eq!(none.exit, 3, "{none:?}");
}

#[tokio::test]
async fn without_a_key_that_is_named_the_one_of_the_data_folder_is_trusted_and_none_is_made() {
    let machine = Machine::silent();
    let file = machine.path("receipt");
    fs::write(&file, signed(&Signer::new(&[7; 32]))).expect("a file");
    let verify = ["receipt", "verify", typed(&file)];
    let printed = machine.types(&verify).await;
    assert_eq!(printed.exit, 2, "{printed:?}");
    assert!(printed.err.contains("--key HEX"), "{}", printed.err);
    assert!(!machine.data().exists(), "looking makes nothing");

    fs::create_dir(machine.data()).expect("a folder");
    let pepper = machine.data().join("pepper");
    let secrets = Secrets::open(&pepper, &crate::chance::SystemChance).expect("a new pepper");
    assert_eq!(machine.types(&verify).await.exit, 1, "it is somebody else's");
    fs::write(&file, signed(&Signer::new(&secrets.proving()))).expect("a file");
    assert_eq!(machine.types(&verify).await.exit, 0);
}

#[tokio::test]
async fn what_is_exported_is_what_is_verified() {
    let signer = Signer::new(&[7; 32]);
    let shown = json!({ "task": "T-7", "line": "tests", "signed": signed(&signer) });
    let machine = Machine::serving(vec![Says::Answer(200, shown, None)]);
    let printed = machine.types(&["receipt", "export", "7", "tests"]).await;
    assert_eq!(printed.exit, 0, "{printed:?}");
    assert_eq!(machine.puppet().seen()[0].target, "/v1/tasks/T-7/receipts/tests");
    let file = machine.path("receipt");
    fs::write(&file, &printed.out).expect("a file");
    let key = signer.public().digits();
    let verified = machine.types(&["receipt", "verify", typed(&file), "--key", &key]).await;
    assert_eq!(verified.exit, 0, "{verified:?}");
}
