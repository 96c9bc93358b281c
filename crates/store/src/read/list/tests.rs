use std::convert::Infallible;

use super::{List, PAGE_MAX, SCAN_MAX};

fn fill(count: usize, wants: impl Fn(&usize) -> bool, count_max: usize) -> List<usize, usize> {
    let found = (1..=count).map(Ok::<_, Infallible>);
    let Ok(list) = List::fill(found, |row| *row, wants, count_max, 0);
    list
}

#[test]
fn a_page_that_ends_with_the_list_does_not_go_on() {
    assert_eq!(fill(3, |_| true, 3).next, None);
    assert_eq!(fill(4, |_| true, 3).next, Some(3));
    assert_eq!(fill(0, |_| true, 3).next, None);
}

#[test]
fn a_page_holds_at_least_one_row_and_at_most_the_bound() {
    assert_eq!(fill(9, |_| true, 0).rows, [1]);
    assert_eq!(fill(2 * PAGE_MAX, |_| true, usize::MAX).rows.len(), PAGE_MAX);
}

#[test]
fn a_filter_that_matches_little_is_told_where_to_go_on() {
    let page = fill(2 * SCAN_MAX, |row| *row == 2 * SCAN_MAX, 10);
    assert_eq!((page.rows, page.next), (vec![], Some(SCAN_MAX)));
    let page = fill(SCAN_MAX, |_| false, 10);
    assert_eq!((page.rows, page.next), (vec![], None), "everything was looked at");
}
