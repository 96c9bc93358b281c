use std::process::{Command, Stdio};

use rustix::process::{Pid, getpid, getppid};

use super::{boot_id, by_pid, children, descends, namespace};

#[test]
fn a_process_is_known_by_its_number_and_its_start() {
    let own = by_pid(getpid()).expect("we are there");
    assert!(own.is_there());
    let mut other = own;
    other.started += 1;
    assert!(!other.is_there(), "the number alone is not enough");
    assert!(!boot_id().expect("this boot has a name").is_empty());
    assert!(namespace(getpid()).expect("we have one") > 0);
}

#[test]
fn whoever_comes_from_somebody_descends_from_them_and_nobody_else() {
    let mut child = Command::new("/bin/sh")
        .args(["-c", "cat & wait"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a pid");
    assert!(descends(pid, getpid()) && descends(pid, pid));
    assert!(!descends(getpid(), pid));
    let parent = getppid().expect("somebody started us");
    assert!(descends(pid, parent) && !descends(parent, getpid()));
    if let Ok(grandchildren) = children(pid) {
        assert!(grandchildren.iter().all(|one| descends(*one, getpid())));
    }
    drop(child.stdin.take());
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
}
