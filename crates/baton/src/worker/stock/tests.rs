use baton_domain::ids::{AttemptId, TaskId};

use super::{Short, Stock, available, group_of, memory_left, short};

fn attempt(task: u64) -> AttemptId {
    AttemptId { task: TaskId(task), number: 1 }
}

#[test]
fn what_was_promised_counts_as_taken() {
    let mut stock = Stock::new(3);
    assert_eq!(stock.promise(), 3);
    assert_eq!(stock.promise(), 0);
    assert_eq!(stock.take(attempt(1)), 0);
    assert_eq!(stock.promise(), 0);
    stock.free(attempt(1));
    assert_eq!(stock.promise(), 1);
}

#[test]
fn a_server_that_comes_again_is_promised_what_is_free() {
    let mut stock = Stock::new(3);
    assert_eq!(stock.promise(), 3);
    stock.take(attempt(1));
    stock.forget_promises();
    assert_eq!(stock.promise(), 2);
}

#[test]
fn places_are_used_again_and_nobody_is_moved() {
    let mut stock = Stock::new(2);
    stock.keep(attempt(7), 1);
    assert_eq!(stock.take(attempt(1)), 0);
    assert_eq!(stock.take(attempt(2)), 2, "more than there are places, from a worker before");
    stock.free(attempt(7));
    assert_eq!(stock.take(attempt(3)), 1);
}

#[test]
fn free_memory_is_what_the_kernel_says() {
    assert_eq!(available("MemTotal: 9 kB\nMemAvailable:   2048 kB\n"), Some(2 << 20));
    assert_eq!(available("MemTotal: 9 kB\n"), None);
    assert_eq!(group_of("1:name=x:/a\n0::/user.slice/b\n"), Some("user.slice/b"));
    assert!(memory_left().is_some_and(|bytes| bytes > 0));
}

#[test]
fn whoever_is_short_of_room_says_of_what_and_by_which_setting() {
    let folder = std::env::temp_dir();
    assert_eq!(short(&folder, 0, 0), None);
    let memory = short(&folder, u64::MAX, u64::MAX).expect("nobody has so much");
    assert!(matches!(memory, Short::Memory { .. }), "{memory}");
    let disk = short(&folder, 0, u64::MAX).expect("nobody has so much");
    assert!(matches!(disk, Short::Disk { .. }), "{disk}");
    let told = Short::Disk { left: 900 << 20, floor: 1 << 30 }.to_string();
    assert_eq!(told, "900 MiB of disk are left, and `disk_floor` is 1024 MiB");
}
