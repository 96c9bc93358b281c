//! A fresh cluster, made once and copied ever after: making one takes seconds, copying it none.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::place::{copy, fresh, shelf};
use super::programs::Programs;
use super::{ADMIN, Disk, OWNER};

/// Counts the ways in which templates were made; an older one is not taken.
const EDITION: u32 = 1;

/// Copies the template into a folder, which it makes.
pub(super) fn pour(programs: &Programs, into: &Path) {
    copy(&template(programs), into, &|path| programs.hand_over(path));
}

/// The template, made if there is none yet.
fn template(programs: &Programs) -> PathBuf {
    let place = shelf().join(format!("template-{}-{EDITION}", programs.version));
    if place.exists() {
        return place;
    }
    let lock = File::create(shelf().join("template.lock")).expect("the build folder is ours");
    lock.lock().expect("a file can be locked");
    if !place.exists() {
        // Whoever runs the server may not be allowed into the build folder, nor write there.
        let home = fresh(Disk::Careless);
        programs.hand_over(&home);
        make(programs, &home.join("data"));
        let half = place.with_extension("half");
        drop(fs::remove_dir_all(&half));
        copy(&home.join("data"), &half, &|_| {});
        fs::rename(&half, &place).expect("a folder can be renamed");
        fs::remove_dir_all(&home).expect("what was made can be removed");
    }
    place
}

fn make(programs: &Programs, data: &Path) {
    let mut initdb = programs.command("initdb");
    initdb.args(["--username", ADMIN, "--auth", "trust", "--encoding", "UTF8", "--locale", "C"]);
    initdb.args(["--no-sync", "--pgdata"]).arg(data);
    let told = initdb.output().expect("initdb starts");
    assert!(told.status.success(), "initdb: {}", String::from_utf8_lossy(&told.stderr));
    // A server that is no server yet: it reads statements and ends.
    let mut single = programs.command("postgres");
    single.args(["--single", "-D"]).arg(data).arg("postgres");
    single.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut single = single.spawn().expect("postgres starts");
    let statement = format!("CREATE ROLE {OWNER} LOGIN NOSUPERUSER NOCREATEDB CREATEROLE\n");
    let mut input = single.stdin.take().expect("the input was asked for");
    input.write_all(statement.as_bytes()).expect("postgres reads");
    drop(input);
    assert!(single.wait().expect("it can be reaped").success(), "the owner was not made");
}
