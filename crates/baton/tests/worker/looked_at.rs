//! What people see of a run: what its agent says, and what it changed.

use std::io::Write as _;

use serde_json::Value;

use crate::house::House;

fn texts(log: &Value) -> Vec<&str> {
    let items = log["items"].as_array().expect("a list");
    items.iter().filter_map(|line| line["text"].as_str()).collect()
}

#[test]
fn a_live_agent_is_followed_and_its_log_is_kept_when_it_ends() {
    let mut house = House::served(
        "say I begin.\nrun read word < ../../../../../../pipe; echo heard $word\nsay I am done.\ncomplete Done\n",
    );
    house.pipe("pipe");
    house.work_on(&["--once"]);
    let mut pipe = house.opened("pipe");
    let log = house.types(&["run", "logs", "T-1"]);
    assert_eq!(log["attempt"], "A-1.1", "{log}");
    assert_eq!((&log["live"], &log["fresh"]), (&true.into(), &true.into()), "{log}");
    assert!(texts(&log).contains(&"I begin."), "{log}");
    let last = log["last"].as_u64().expect("a number");
    let newer = house.types(&["run", "logs", "T-1", "--after", &last.to_string()]);
    assert_eq!((texts(&newer), newer["last"].as_u64()), (vec![], Some(last)), "{newer}");
    pipe.write_all(b"hello\n").expect("somebody reads");
    drop(pipe);
    assert_eq!(house.waits(), 0, "{}", house.logs());
    house.worker_ends();
    let log = house.types(&["run", "logs", "T-1"]);
    assert_eq!((&log["live"], &log["fresh"]), (&false.into(), &false.into()), "{log}");
    assert!(texts(&log).contains(&"I begin.") && texts(&log).contains(&"I am done."), "{log}");
    assert!(log["brought_at"].is_string(), "{log}");
    let tail = house.types(&["run", "logs", "T-1", "--limit", "1"]);
    assert_eq!(texts(&tail).len(), 1, "{tail}");
    assert_eq!(tail["dropped"].as_u64(), log["last"].as_u64().map(|last| last - 1), "{tail}");
}

#[test]
fn no_log_shows_what_opens_baton() {
    let mut house = House::served(
        "run echo \"$BATON_CLAIM_TOKEN\" | tee /dev/stderr\nsay Told.\ncomplete Done\n",
    );
    house.work_on(&["--once"]);
    assert_eq!(house.waits(), 0, "{}", house.logs());
    house.worker_ends();
    let log = house.types(&["run", "logs", "T-1"]);
    assert!(texts(&log).contains(&"Told."), "{log}");
    assert!(!log.to_string().contains("batonc_"), "{log}");
}

#[test]
fn what_an_attempt_changed_is_told_from_what_the_server_has() {
    let mut house = House::with_repository(
        "edit a.txt one\nrun printf 'hello\\nworld\\n' > README; printf '\\0\\1' > blob\n\
         run printf '* diff=evil\\n' > .gitattributes; git config diff.evil.command 'touch /dev/null'\ncomplete Done\n",
    );
    house.work_on(&["--once"]);
    assert_eq!(house.waits(), 0, "{}", house.logs());
    house.worker_ends();
    let diff = house.types(&["run", "diff", "T-1"]);
    assert_eq!(diff["attempt"], "A-1.1", "{diff}");
    let files = diff["items"].as_array().expect("a list");
    let counted: Vec<_> = files
        .iter()
        .map(|file| (file["path"].as_str().unwrap_or_default(), file["added"].as_u64()))
        .collect();
    let wanted =
        [(".gitattributes", Some(1)), ("README", Some(1)), ("a.txt", Some(1)), ("blob", None)];
    assert_eq!(counted, wanted, "{diff}");
    let patch = diff["patch"].as_str().expect("a patch");
    assert!(patch.contains("+world\n") && patch.contains("+one\n"), "{patch}");
    assert_eq!((&diff["added"], &diff["unshown"]), (&3.into(), &0.into()), "{diff}");
    let again = house.types(&["run", "diff", "T-1"]);
    assert_eq!(again["patch"], diff["patch"], "the same work gives the same patch");
    let one = house.types(&["run", "diff", "T-1", "--path", "a.txt"]);
    assert_eq!(one["items"].as_array().map(Vec::len), Some(1), "{one}");
    let stat = house.types(&["run", "diff", "T-1", "--stat"]);
    assert!(stat.get("patch").is_none() && stat["added"] == 3, "{stat}");
}
