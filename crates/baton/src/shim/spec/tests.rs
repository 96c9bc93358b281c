use std::collections::BTreeMap;

use baton_domain::ids::{AttemptId, RunId, TaskId, TenantId};

use super::{GRACE_MS_MAX, Limits, STDIN_BYTES_MAX, Spec, Wanted};
use crate::shim::Place;

fn spec() -> Spec {
    Spec {
        deployment: "d-1".into(),
        tenant: TenantId::new("local").expect("a name"),
        run: RunId { task: TaskId(7), number: 1 },
        attempt: AttemptId { task: TaskId(7), number: 3 },
        nonce: "n0".into(),
        argv: vec!["true".into()],
        env: BTreeMap::from([("PATH".into(), "/bin".into())]),
        cwd: "/tmp".into(),
        home: "/tmp/h".into(),
        stdin: b"\0\xff begin\n".to_vec(),
        close_stdin: false,
        limits: Limits::default(),
        fence_boot_ms: 1,
        grace_ms: 2_000,
        proof_ms: 10_000,
        spool_bytes_max: 256 << 20,
        isolation: Wanted::default(),
        hidden: vec![],
        shown: vec![],
        fixed: vec![],
        tmp: None,
    }
}

#[track_caller]
fn refused(field: &str, change: impl FnOnce(&mut Spec)) {
    let mut spec = spec();
    change(&mut spec);
    let error = spec.check().expect_err("it breaks a rule");
    assert!(error.to_string().starts_with(&format!("spec: {field} must")), "{error}");
}

#[test]
fn a_spec_that_breaks_a_rule_is_refused_by_the_name_of_its_field() {
    spec().check().expect("it is good");
    refused("deployment", |spec| spec.deployment = "../x".into());
    refused("nonce", |spec| spec.nonce = String::new());
    refused("attempt", |spec| spec.run.task = TaskId(8));
    refused("argv", |spec| spec.argv = vec![]);
    refused("argv", |spec| spec.argv.push("a\0b".into()));
    refused("env", |spec| drop(spec.env.insert("A=B".into(), String::new())));
    refused("env", |spec| drop(spec.env.insert("A".into(), "\0".into())));
    refused("cwd", |spec| spec.cwd = "relative".into());
    refused("home", |spec| spec.home = "/a/../b".into());
    refused("stdin", |spec| spec.stdin = vec![0; STDIN_BYTES_MAX + 1]);
    refused("grace_ms", |spec| spec.grace_ms = GRACE_MS_MAX + 1);
    refused("proof_ms", |spec| spec.proof_ms = 0);
    refused("spool_bytes_max", |spec| spec.spool_bytes_max = 1);
    refused("hidden", |spec| spec.hidden = vec!["x".into()]);
    refused("shown", |spec| spec.shown = vec!["../x".into()]);
}

#[test]
fn a_spec_comes_back_as_it_was_written_and_a_folder_is_used_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::at(folder.path().join("attempts").join("one"));
    place.write_spec(&spec()).expect("it is written");
    assert_eq!(place.spec().expect("it is read"), spec());
    let error = place.write_spec(&spec()).expect_err("once is enough");
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(place.launch().expect("none is no error"), None);
    assert_eq!(place.status().expect("none is no error"), None);
}

#[test]
fn a_spec_with_a_field_that_nobody_knows_is_refused() {
    let mut value = serde_json::to_value(spec()).expect("it is plain");
    value["isolatoin"] = "skip".into();
    let error = serde_json::from_value::<Spec>(value).expect_err("a slip is not passed over");
    assert!(error.to_string().contains("isolatoin"), "{error}");
}

#[test]
fn a_spec_shows_its_secrets_to_nobody_by_accident() {
    let mut spec = spec();
    spec.env.insert("BATON_CLAIM_TOKEN".into(), "t0ken".into());
    spec.stdin = b"s3cret".to_vec();
    spec.argv.push("p4ss".into());
    let text = format!("{spec:?}");
    assert!(!["t0ken", "s3cret", "p4ss"].iter().any(|word| text.contains(word)), "{text}");
}
