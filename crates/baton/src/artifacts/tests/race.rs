//! Somebody swaps what a path leads through while we look: never are bytes from outside the root taken.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use baton_testkit::rounds;
use rustix::fs::{CWD, Mode, OFlags, RenameFlags, renameat_with};

use super::super::Source;
use super::{Scene, asking};

/// Swaps that each way of opening lives through; a million in a soak.
const SWAPS: u64 = 50_000;
/// Looks of the slower way, which copies; each meets many swaps.
const LOOKS: u64 = 2_000;

/// Looks again and again while another thread swaps a folder and a link to the outside, or a file and a link.
/// Answers how many looks there were, and how many found what is inside.
fn swapping(
    scene: &Scene,
    enough: impl Fn(u64, u64) -> bool,
    look: impl Fn() -> bool,
) -> (u64, u64) {
    let (over, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    let (out, link) = (scene.at("root/out"), scene.at("root/link"));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                renameat_with(CWD, &out, CWD, &link, RenameFlags::EXCHANGE).expect("a swap");
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        let (mut looks, mut inside) = (0, 0);
        while !enough(swaps.load(Ordering::Relaxed), looks) {
            inside += u64::from(look());
            looks += 1;
        }
        over.store(true, Ordering::Relaxed);
        (looks, inside)
    })
}

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("out/secret", "inside");
    symlink("../beside", scene.at("root/link")).expect("a link");
    scene
}

/// Whether a file that was opened is the one inside; the other one must never be.
fn is_inside(opened: std::io::Result<File>) -> bool {
    let Ok(mut file) = opened else { return false };
    let mut text = String::new();
    file.read_to_string(&mut text).expect("it is open");
    assert_eq!(text, "inside", "an escape");
    true
}

#[test]
fn no_swap_leads_out_of_the_root_on_a_new_kernel() {
    let scene = scene();
    let Source(root) = scene.source();
    let enough = |swaps, looks| swaps >= rounds(SWAPS) && looks >= LOOKS;
    let path = Path::new("out/secret");
    let (looks, inside) = swapping(&scene, enough, || is_inside(root.whatever(path)));
    assert!(inside > 0, "of {looks} looks none found what is there");
}

#[test]
fn no_swap_leads_out_of_the_root_on_an_old_kernel() {
    let scene = scene();
    let Source(root) = scene.source();
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let enough = |swaps, looks| swaps >= rounds(SWAPS) && looks >= LOOKS;
    let look = || {
        let opened = root.step_by_step(Path::new("out/secret"), flags, Mode::empty());
        is_inside(opened.map(File::from))
    };
    let (looks, inside) = swapping(&scene, enough, look);
    assert!(inside > 0, "of {looks} looks none found what is there");
}

#[test]
fn no_swap_puts_bytes_from_outside_into_a_copy() {
    let scene = scene();
    let (source, contract) = (scene.source(), asking(&["out/secret", "**/secret"]));
    let enough = |swaps, looks| swaps >= LOOKS && looks >= rounds(LOOKS);
    let look = || {
        let gathered = source.gather(&contract, &BTreeMap::new(), &scene.at("copies"));
        for made in &gathered.made {
            assert_eq!(fs::read(&made.copy).expect("the copy"), b"inside", "an escape");
        }
        !gathered.made.is_empty()
    };
    let (looks, inside) = swapping(&scene, enough, look);
    assert!(inside > 0, "of {looks} looks none found what is there");
}

#[test]
fn what_is_copied_of_a_file_that_changes_is_what_was_hashed() {
    let scene = Scene::new();
    let path = scene.at("root/out/file");
    // Either text is larger than what is read at once, so that a copy could be made of both.
    let texts = [vec![b'a'; 300 << 10], vec![b'b'; 300 << 10]];
    fs::write(&path, &texts[0]).expect("a file");
    let (source, contract) = (scene.source(), asking(&["out/file"]));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut turn = 0;
            while !over.load(Ordering::Relaxed) {
                let mut file = File::options().write(true).open(&path).expect("it is there");
                for part in texts[turn % 2].chunks(64 << 10) {
                    file.write_all(part).expect("room");
                }
                turn += 1;
            }
        });
        for _ in 0..rounds(100) {
            let gathered = source.gather(&contract, &BTreeMap::new(), &scene.at("copies"));
            for made in &gathered.made {
                let copy = fs::read(&made.copy).expect("the copy");
                let digest = crate::contract::digest(&copy);
                assert_eq!(digest, made.artifact.digest, "what was copied is what was hashed");
            }
            for open in &gathered.open {
                assert_eq!(open.code, "artifact_changing");
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}
