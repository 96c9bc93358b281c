//! Members put into JSON as people write it, comments and all, without touching anything else.

use serde_json::{Map, Value};

use super::Why;

/// The place for a new member, and its text: below the objects of the path, under the key, or as the
/// first of the list at the path if there is no key.
pub fn insertion(
    text: &str,
    path: &[&str],
    key: Option<&str>,
    value: &Value,
) -> Result<(usize, String), Why> {
    let source = text.as_bytes();
    let mut container = Container::at(source, skip(source, 0)).ok_or(Why::Unreadable)?;
    if skip(source, container.close + 1) != source.len() {
        return Err(Why::Unreadable);
    }
    let mut missing = path;
    while let [first, rest @ ..] = missing {
        match container.member(source, first).ok_or(Why::Unreadable)? {
            Some(at) => container = Container::at(source, at).ok_or(Why::Unreadable)?,
            None => break,
        }
        missing = rest;
    }
    let depth = path.len() - missing.len() + 1;
    let unit = unit(text);
    // Whatever is missing on the way is put around it.
    let (name, value) = match (missing, key) {
        ([first, rest @ ..], key) => (Some(*first), wrapped(rest, key, value)),
        ([], Some(key)) => {
            if container.member(source, key).ok_or(Why::Unreadable)?.is_some() {
                return Err(Why::Foreign);
            }
            (Some(key), value.clone())
        }
        ([], None) => (None, value.clone()),
    };
    let list = name.is_none();
    if list != (source[container.open] == b'[') {
        return Err(Why::Unreadable);
    }
    let pretty = pretty(&value, &unit, depth);
    let inner =
        name.map_or_else(|| pretty.clone(), |name| format!("{}: {pretty}", Value::from(name)));
    let indent = unit.repeat(depth);
    let text = if container.empty {
        format!("\n{indent}{inner}\n{}", unit.repeat(depth - 1))
    } else {
        format!("\n{indent}{inner},")
    };
    Ok((container.open + 1, text))
}

fn wrapped(path: &[&str], key: Option<&str>, value: &Value) -> Value {
    let innermost = match key {
        Some(key) => Value::Object(Map::from_iter([(key.to_owned(), value.clone())])),
        None => Value::Array(vec![value.clone()]),
    };
    let around = |inner, name: &&str| Value::Object(Map::from_iter([((*name).to_owned(), inner)]));
    path.iter().rev().fold(innermost, around)
}

/// As people write it, with everything but the first line moved in.
fn pretty(value: &Value, unit: &str, depth: usize) -> String {
    let two = serde_json::to_string_pretty(value).expect("JSON can be written");
    let lines = two.lines().map(|line| {
        let inner = line.trim_start();
        let level = (line.len() - inner.len()) / 2;
        format!("{}{inner}", unit.repeat(depth + level))
    });
    let text: Vec<_> = lines.collect();
    text.join("\n").trim_start().to_owned()
}

/// How the file is indented.
fn unit(text: &str) -> String {
    let first = text
        .lines()
        .find(|line| line.trim_start().starts_with('"') && line.starts_with([' ', '\t']));
    first.map_or_else(
        || "  ".to_owned(),
        |line| line[..line.len() - line.trim_start().len()].to_owned(),
    )
}

struct Container {
    open: usize,
    close: usize,
    empty: bool,
}

impl Container {
    /// The object or list that begins here.
    fn at(source: &[u8], open: usize) -> Option<Self> {
        if !matches!(source.get(open)?, b'{' | b'[') {
            return None;
        }
        let close = end(source, open)? - 1;
        Some(Self { open, close, empty: skip(source, open + 1) == close })
    }

    /// Where the value of a member begins; none inside if there is no such member.
    fn member(&self, source: &[u8], name: &str) -> Option<Option<usize>> {
        if source[self.open] != b'{' {
            return None;
        }
        let mut at = skip(source, self.open + 1);
        while at < self.close {
            let after = end(source, at)?;
            let key: String = serde_json::from_slice(&source[at..after]).ok()?;
            let colon = skip(source, after);
            let value = (source.get(colon) == Some(&b':')).then(|| skip(source, colon + 1))?;
            if key == name {
                return Some(Some(value));
            }
            at = skip(source, end(source, value)?);
            if source.get(at) == Some(&b',') {
                at = skip(source, at + 1);
            }
        }
        Some(None)
    }
}

/// Where the value that begins here ends.
fn end(source: &[u8], at: usize) -> Option<usize> {
    match source.get(at)? {
        b'"' => {
            let mut at = at + 1;
            while *source.get(at)? != b'"' {
                at += if source[at] == b'\\' { 2 } else { 1 };
            }
            Some(at + 1)
        }
        b'{' | b'[' => {
            let mut at = skip(source, at + 1);
            while !matches!(source.get(at)?, b'}' | b']') {
                at = match source[at] {
                    b',' | b':' => at + 1,
                    _ => end(source, at)?,
                };
                at = skip(source, at);
            }
            Some(at + 1)
        }
        _ => {
            let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
            let count = source[at..].iter().take_while(|byte| plain(byte)).count();
            (count > 0).then_some(at + count)
        }
    }
}

/// The next byte that is neither blank nor in a comment.
fn skip(source: &[u8], mut at: usize) -> usize {
    loop {
        let rest = &source[at.min(source.len())..];
        if rest.first().is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        } else if rest.starts_with(b"//") {
            at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        } else if rest.starts_with(b"/*") {
            at += rest.windows(2).position(|two| two == b"*/").map_or(rest.len(), |end| end + 2);
        } else {
            return at;
        }
    }
}
