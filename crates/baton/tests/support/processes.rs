//! Who is there, as the kernel says.

use std::fs;
use std::path::Path;

use rustix::process::Pid;

/// Processes that are named after a folder, work in it or were told of it, with their command lines.
pub fn of(folder: &Path) -> Vec<(Pid, String)> {
    let entries = fs::read_dir("/proc").expect("it is there").filter_map(Result::ok);
    let numbers = entries.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        Some((Pid::from_raw(pid)?, entry.path()))
    });
    let own = numbers.filter(|(_, path)| is_of(path, folder));
    own.map(|(pid, path)| (pid, line(&path))).collect()
}

fn line(process: &Path) -> String {
    let bytes = fs::read(process.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

fn is_of(process: &Path, folder: &Path) -> bool {
    let name = folder.to_str().expect("a plain name");
    let environment = fs::read(process.join("environ")).unwrap_or_default();
    line(process).contains(name)
        || fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
        || String::from_utf8_lossy(&environment).contains(name)
}
