//! What a pattern of paths stands for.

use baton_domain::pattern::{is_pattern, is_sound, matches};

use crate::history::runner;

#[test]
fn a_star_stays_in_its_part_and_two_cross_parts() {
    for (pattern, path, fits) in [
        ("a/b.txt", "a/b.txt", true),
        ("a/b.txt", "a/b.txt2", false),
        ("*.txt", "b.txt", true),
        ("*.txt", "a/b.txt", false),
        ("a/*", "a/b", true),
        ("a/*", "a", false),
        ("a/*", "a/b/c", false),
        ("a*c*e", "abcde", true),
        ("a*c*e", "abcdef", false),
        ("**", "a/b/c", true),
        ("a/**", "a/b/c", true),
        ("a/**", "b/a/c", false),
        ("**/c", "c", true),
        ("**/c", "a/b/c", true),
        ("a/**/c", "a/c", true),
        ("a/**/c/*.x", "a/c/c/c/d.x", true),
        ("A", "a", false),
    ] {
        assert_eq!(matches(pattern, path), fits, "{pattern} {path}");
    }
    assert!(is_pattern("a*") && !is_pattern("a"));
    for (pattern, sound) in
        [("a/**/b*c", true), ("a**", false), ("**a/b", false), (&"*/".repeat(17), false)]
    {
        assert_eq!(is_sound(pattern), sound, "{pattern}");
    }
}

/// The same by trying everything; slow, and plain to see.
fn plainly(pattern: &[&str], path: &[&str]) -> bool {
    fn part(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) => (0..=name.len()).any(|cut| part(rest, &name[cut..])),
            (Some((one, rest)), Some((two, more))) if one == two => part(rest, more),
            _ => false,
        }
    }
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), _) => (0..=path.len()).any(|cut| plainly(rest, &path[cut..])),
        (Some((one, rest)), Some((two, more))) => {
            part(one.as_bytes(), two.as_bytes()) && plainly(rest, more)
        }
        _ => false,
    }
}

#[test]
fn looking_back_to_the_last_star_alone_finds_what_trying_everything_finds() {
    let patterns = "(\\*\\*|[ab*]{1,4})(/(\\*\\*|[ab*]{1,4})){0,4}";
    let both = (patterns, "[ab]{1,4}(/[ab]{1,3}){0,5}");
    let outcome = runner().run(&both, |(pattern, path)| {
        let (wanted, parts): (Vec<_>, Vec<_>) =
            (pattern.split('/').collect(), path.split('/').collect());
        assert_eq!(matches(&pattern, &path), plainly(&wanted, &parts), "{pattern} {path}");
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
