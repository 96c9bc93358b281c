//! A file system that never answers: whoever waits for it sleeps so that no signal ends it.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{getgid, getuid};

use crate::stage::PATIENCE;

/// Bytes that the kernel wants to have room for before it says anything.
const ROOM: usize = 1 << 17;
/// The first thing that it asks: which version is spoken.
const INIT: u32 = 26;
/// Bytes of the head of an answer.
const HEAD_BYTES: usize = 16;
/// Bytes of the answer to the first question.
const INIT_BYTES: usize = 64;
/// The version that is spoken.
const VERSION: (u32, u32) = (7, 31);

/// It is there until this is dropped.
pub struct Mute {
    folder: PathBuf,
    asked: Receiver<()>,
}

impl Mute {
    /// Mounts one, where the machine allows it.
    pub fn mounted(folder: &Path) -> Option<Self> {
        let device = File::options().read(true).write(true).open("/dev/fuse").ok()?;
        fs::create_dir(folder).expect("there is room");
        let (user, group) = (getuid().as_raw(), getgid().as_raw());
        let fd = device.as_raw_fd();
        let options = format!("fd={fd},rootmode=40000,user_id={user},group_id={group}");
        let options = std::ffi::CString::new(options).expect("plain words");
        mount("mute", folder, "fuse", MountFlags::NOSUID | MountFlags::NODEV, &*options).ok()?;
        let (tell, asked) = channel();
        thread::spawn(move || {
            let mut device = device;
            let mut bytes = vec![0; ROOM];
            // It ends when nobody has it mounted any more.
            while let Ok(length) = device.read(&mut bytes) {
                match opcode(&bytes[..length]) {
                    Some(INIT) => drop(device.write_all(&greeting(&bytes))),
                    Some(_) => drop(tell.send(())),
                    None => return,
                }
            }
        });
        Some(Self { folder: folder.to_owned(), asked })
    }

    /// Waits until somebody waits for it.
    pub fn is_asked(&self) {
        self.asked.recv_timeout(PATIENCE).expect("somebody asks");
    }

    /// Lets everybody go who waits.
    pub fn give_up(&self) {
        let _ = unmount(&self.folder, UnmountFlags::FORCE | UnmountFlags::DETACH);
    }
}

impl Drop for Mute {
    fn drop(&mut self) {
        self.give_up();
    }
}

fn opcode(question: &[u8]) -> Option<u32> {
    let word = question.get(4..8)?.first_chunk::<4>()?;
    Some(u32::from_ne_bytes(*word))
}

/// The answer to the first question: the version, and that nothing special is wanted.
fn greeting(question: &[u8]) -> Vec<u8> {
    let length = HEAD_BYTES + INIT_BYTES;
    let mut answer = u32::try_from(length).expect("it is short").to_ne_bytes().to_vec();
    answer.extend(0_u32.to_ne_bytes());
    answer.extend(&question[8..16]);
    for word in [VERSION.0, VERSION.1, 0, 0, 0, 4_096, 1] {
        answer.extend(word.to_ne_bytes());
    }
    answer.resize(length, 0);
    answer
}
