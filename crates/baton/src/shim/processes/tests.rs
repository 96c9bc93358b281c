use std::io::Read as _;
use std::process::{Command, Stdio};

use rustix::process::{Pid, getpid, getppid};

use super::{TICK_MS, boot_id, by_pid, children, descends, namespace, spent_below_ms};

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

#[test]
fn what_was_computed_below_a_process_counts_also_after_its_end() {
    let busy = "(i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done); echo done; read line";
    let mut child = Command::new("/bin/sh")
        .args(["-c", busy])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a pid");
    let root = by_pid(pid).expect("it is there");
    let mut said = [0; 5];
    let output = child.stdout.as_mut().expect("it has one");
    output.read_exact(&mut said).expect("it says so when it is done");
    assert!(spent_below_ms(root) >= TICK_MS, "its child has computed");
    drop(child.stdin.take());
    child.wait().expect("it is ours");
}
