use std::ffi::OsString;
use std::path::PathBuf;

use super::Surroundings;

fn of(pairs: &[(&str, &str)]) -> Surroundings {
    let get = |name: &str| {
        let found = pairs.iter().find(|(own, _)| *own == name);
        found.map(|(_, value)| OsString::from(value))
    };
    Surroundings::read(get, false)
}

#[test]
fn the_data_folder_is_the_named_one_or_the_usual_one() {
    let folder = |pairs: &[(&str, &str)]| of(pairs).folder();
    assert_eq!(folder(&[("BATON_HOME", "/a"), ("HOME", "/b")]), Some(PathBuf::from("/a")));
    assert_eq!(folder(&[("XDG_STATE_HOME", "/s")]), Some(PathBuf::from("/s/baton")));
    let usual = PathBuf::from("/b/.local/state/baton");
    assert_eq!(folder(&[("HOME", "/b"), ("XDG_STATE_HOME", "s")]), Some(usual.clone()));
    assert_eq!(folder(&[("HOME", "/b"), ("BATON_HOME", "")]), Some(usual));
    assert_eq!(folder(&[]), None);
}

#[test]
fn a_secret_shows_itself_to_nobody_by_accident() {
    let text = format!("{:?}", of(&[("BATON_KEY", "s3cret"), ("BATON_CLAIM_TOKEN", "t0ken")]));
    assert!(!text.contains("s3cret") && !text.contains("t0ken"), "{text}");
}
