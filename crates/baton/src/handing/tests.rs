//! A client that is told what is missing, in a folder that has some of it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::hand_in;
use crate::client::tests::{Puppet, Says, client};
use crate::client::{Client, Failure};

/// A server that takes whatever is handed in.
fn serving(folder: &Path) -> (Arc<Puppet>, Client) {
    let digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let taken = json!({ "digest": digest, "size": 5, "new": true });
    let puppet = Puppet::at(&folder.join("s"), vec![Says::Answer(200, taken, None)]);
    (puppet, client(&folder.join("s")))
}

fn refusal(missing: Value) -> Failure {
    Failure { body: json!({ "code": "incomplete", "missing": missing }), exit: 10 }
}

fn absent(line: &str, path: &str) -> Value {
    json!({ "line": line, "code": "artifact_missing", "path": path })
}

#[tokio::test]
async fn what_is_here_is_handed_in_by_its_digest_and_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (puppet, client) = serving(folder.path());
    fs::create_dir(folder.path().join("out")).expect("a folder");
    for name in ["out/a.txt", "out/b.txt"] {
        fs::write(folder.path().join(name), "hello").expect("a file");
    }
    let refused = refusal(json!([absent("files", "out/*.txt")]));
    let artifacts = hand_in(&client, refused, folder.path().into()).await.expect("both are here");
    let digest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let named = |path: &str| json!({ "path": path, "digest": digest, "bytes": 5 });
    assert_eq!(artifacts, json!([named("out/a.txt"), named("out/b.txt")]));
    let seen = puppet.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].target, format!("/v1/blobs/{digest}"));
    assert_eq!((seen[0].method.as_str(), seen[0].body.as_str()), ("PUT", "hello"));
}

#[tokio::test]
async fn nothing_is_handed_in_while_anything_is_wrong_and_all_of_it_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let (puppet, client) = serving(folder.path());
    fs::write(folder.path().join("good"), "hello").expect("a file");
    fs::write(folder.path().join("empty"), "").expect("a file");
    std::os::unix::fs::symlink("good", folder.path().join("link")).expect("a link");
    let unknown = json!({ "line": "summary", "code": "task_unknown", "path": "T-99" });
    let missing = json!([
        absent("a", "good"),
        absent("b", "empty"),
        absent("c", "link"),
        absent("d", "gone"),
        unknown,
    ]);
    let refused = hand_in(&client, refusal(missing), folder.path().into()).await;
    let told = refused.expect_err("three are wrong").body["missing"].clone();
    let codes: Vec<_> = told.as_array().into_iter().flatten().map(|one| &one["code"]).collect();
    let expected = ["artifact_empty", "artifact_link", "artifact_missing", "task_unknown"];
    assert_eq!(codes, expected);
    assert!(puppet.seen().is_empty());
}

#[tokio::test]
async fn a_refusal_that_no_file_could_answer_stays_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_puppet, client) = serving(folder.path());
    let stale = json!({ "line": "a", "code": "artifact_stale", "path": "a" });
    for body in [
        json!({ "code": "lease_lost" }),
        json!({ "code": "incomplete" }),
        json!({ "code": "incomplete", "missing": [stale] }),
        json!({ "code": "incomplete", "missing": [absent("a", "../../etc/passwd")] }),
        json!({ "code": "lease_lost", "missing": [absent("a", "good")] }),
    ] {
        let refused = Failure { body, exit: 10 };
        let told = hand_in(&client, refused.clone(), folder.path().into()).await;
        assert_eq!(told, Err(refused));
    }
}
