//! How the rules see the project: its files, its manifests, its sources.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// What a stretch of Rust is. A rule looks at one kind, so that a comment may name what code may
/// not do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    Code,
    Comment,
    Text,
}

/// Something that must not be written, and where it may be after all.
pub struct Rule {
    /// `*` stands for anything.
    pub forbids: &'static [&'static str],
    pub inside: Part,
    pub of: fn(&str) -> bool,
    /// Beginnings of paths.
    pub except: &'static [&'static str],
    pub instead: &'static str,
}

impl Rule {
    pub fn check(&self) {
        let mut offences = Vec::new();
        for (path, source) in files() {
            let excepted = self.except.iter().any(|start| path.starts_with(start));
            if !path.ends_with(".rs") || excepted || !(self.of)(&path) {
                continue;
            }
            for (part, line, text) in pieces(&source) {
                for pattern in self.forbids.iter().filter(|_| part == self.inside) {
                    offences.extend(find_all(text, pattern).into_iter().map(|at| {
                        let line = line + text[..at].matches('\n').count();
                        format!("{path}:{line}: no `{pattern}` here; {}", self.instead)
                    }));
                }
            }
        }
        none(offences);
    }
}

/// Fails with all offences at once, so that one run shows the whole work.
#[track_caller]
pub fn none(offences: impl IntoIterator<Item = String>) {
    let offences: Vec<_> = offences.into_iter().collect();
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

pub fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// Every file that is or could be committed, with its text.
pub fn files() -> Vec<(String, String)> {
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let read = |path: &str| {
        // A file deleted but not yet committed is still listed.
        let bytes = std::fs::read(format!("{ROOT}/{path}")).ok()?;
        // Pictures and fonts have no text.
        if bytes.contains(&0) {
            return None;
        }
        Some((path.to_owned(), String::from_utf8_lossy(&bytes).into_owned()))
    };
    let found: Vec<_> = run("git", &args).split('\0').filter_map(read).collect();
    assert!(found.iter().any(|(path, _)| path == "Cargo.toml"), "git lists no files in {ROOT}");
    found
}

/// The packages as cargo sees them, all of the lock file unless told otherwise.
pub fn metadata(args: &[&str]) -> Vec<Value> {
    let fixed = ["metadata", "--format-version=1", "--offline", "--locked"];
    let answer = run(env!("CARGO"), &[&fixed, args].concat());
    let mut answer: Value = serde_json::from_str(&answer).expect("cargo answers in JSON");
    let packages = answer["packages"].as_array_mut().expect("cargo lists the packages");
    std::mem::take(packages)
}

/// What one of our manifests names in the sections of these kinds; null is `[dependencies]`.
pub fn dependencies(package: &str, kinds: &[Value]) -> BTreeSet<String> {
    let packages = metadata(&["--no-deps"]);
    let package = packages.iter().find(|found| found["name"] == package).expect("it is a member");
    let all = package["dependencies"].as_array().expect("a package has dependencies");
    all.iter()
        .filter(|one| kinds.contains(&one["kind"]))
        .map(|one| one["name"].as_str().expect("a dependency has a name").to_owned())
        .collect()
}

/// Whether `deny.toml` lets us use something under this SPDX expression.
pub fn is_allowed(licence: &str) -> bool {
    let licence = licence.trim().replace('/', " OR ");
    if let Some((left, right)) = split_outside_parentheses(&licence, " OR ") {
        is_allowed(left) || is_allowed(right)
    } else if let Some((left, right)) = split_outside_parentheses(&licence, " AND ") {
        is_allowed(left) && is_allowed(right)
    } else if let Some(inner) = licence.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        is_allowed(inner)
    } else {
        let rules = include_str!("../../../../deny.toml");
        let list = rules.split("\nallow = [").nth(1).and_then(|rest| rest.split(']').next());
        let names = list.expect("deny.toml allows some licences").split('"').skip(1).step_by(2);
        names.into_iter().any(|name| name == licence)
    }
}

/// The first names behind the given prefixes, `use crate::{a, b::c}` included.
pub fn used_names(source: &str, prefixes: &[&str]) -> BTreeSet<String> {
    let name = |text: &str| {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        text[..end].to_owned()
    };
    let code = pieces(source).into_iter().filter(|piece| piece.0 == Part::Code);
    let mut names = BTreeSet::new();
    for (_, _, text) in code {
        for (at, prefix) in prefixes.iter().flat_map(|prefix| text.match_indices(prefix)) {
            let rest = &text[at + prefix.len()..];
            match rest.strip_prefix('{') {
                Some(group) => names.extend(items(group).into_iter().map(name)),
                None => drop(names.insert(name(rest))),
            }
        }
    }
    names
}

/// The items of `{a, b::{c, d}}`, given what stands behind the first brace.
fn items(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (1, 0, Vec::new());
    for (at, c) in group.char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if depth == 0 || (depth == 1 && c == ',') {
            found.push(group[start..at].trim_start());
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    found
}

/// Rust cut into code, comments and texts, each with the line it begins on.
fn pieces(source: &str) -> Vec<(Part, usize, &str)> {
    let mut found = Vec::new();
    let (mut line, mut start) = (1, 0);
    while start < source.len() {
        let (part, end) = piece_at(source, start);
        let text = &source[start..end];
        found.push((part, line, text));
        line += text.matches('\n').count();
        start = end;
    }
    found
}

fn piece_at(source: &str, start: usize) -> (Part, usize) {
    let rest = &source[start..];
    let up_to = |end: &str, from: usize| {
        rest[from..].find(end).map_or(source.len(), |at| start + from + at + end.len())
    };
    if rest.starts_with("//") {
        (Part::Comment, start + rest.find('\n').unwrap_or(rest.len()))
    } else if rest.starts_with("/*") {
        (Part::Comment, up_to("*/", 2))
    } else if let Some(text) = rest.strip_prefix('"') {
        let before = source[..start].trim_end_matches('#');
        let hashes = start - before.len();
        let end = if before.ends_with('r') {
            up_to(&format!("\"{}", "#".repeat(hashes)), 1)
        } else {
            start + 1 + end_of_text(text)
        };
        (Part::Text, end)
    } else {
        (Part::Code, start + end_of_code(rest))
    }
}

/// Behind the closing quote, which no backslash stands before.
fn end_of_text(text: &str) -> usize {
    let mut escaped = false;
    let closes = |c: char| {
        let quote = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        quote
    };
    text.find(closes).map_or(text.len(), |at| at + 1)
}

/// Where a comment or a text begins; the quote in `'"'` begins none.
fn end_of_code(code: &str) -> usize {
    let begins = |(at, _): &(usize, char)| {
        let (before, rest) = code.split_at(*at);
        let is_char = before.ends_with('\'') || before.ends_with("'\\");
        let opens_text = rest.starts_with('"') && !(is_char && rest.starts_with("\"'"));
        opens_text || rest.starts_with("//") || rest.starts_with("/*")
    };
    code.char_indices().find(begins).map_or(code.len(), |(at, _)| at)
}

fn find_all(text: &str, pattern: &str) -> Vec<usize> {
    let (first, others) = pattern.split_once('*').unwrap_or((pattern, ""));
    let follows = |at: &usize| text[at + first.len()..].contains(others);
    text.match_indices(first).map(|(at, _)| at).filter(follows).collect()
}

fn split_outside_parentheses<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let is_outside =
        |at: &usize| text[..*at].matches('(').count() == text[..*at].matches(')').count();
    let at = text.match_indices(word).map(|(at, _)| at).find(is_outside)?;
    Some((&text[..at], &text[at + word.len()..]))
}

fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).current_dir(ROOT).output();
    let output = output.unwrap_or_else(|error| panic!("{program} does not start: {error}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {args:?}: {complaint}\n(cargo: run `cargo fetch --locked` once)"
    );
    String::from_utf8(output.stdout).expect("what it prints is UTF-8")
}

#[test]
fn a_licence_is_read_as_an_expression() {
    let asked = ["MIT OR GPL-3.0", "MIT AND GPL-3.0", "(MIT/GPL-3.0) AND Zlib", "GPL-3.0"];
    assert_eq!(asked.map(is_allowed), [true, false, true, false]);
}

#[test]
fn code_comments_and_texts_are_told_apart() {
    let source = "let a = '\"'; // it's \"one\"\nlet b = r#\"/* \"two\" */\"#; /* 3 */ \"\\\"4\";";
    let texts = |part| pieces(source).into_iter().filter(move |p| p.0 == part).map(|p| p.2);
    assert_eq!(texts(Part::Comment).collect::<Vec<_>>(), ["// it's \"one\"", "/* 3 */"]);
    assert_eq!(texts(Part::Text).collect::<Vec<_>>(), ["\"/* \"two\" */\"#", "\"\\\"4\""]);
    assert_eq!(
        used_names("use crate::{a, b::{c, d}, e as f}; crate::g::h()", &["crate::"]).len(),
        4
    );
}
