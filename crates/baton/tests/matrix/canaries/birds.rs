//! The secrets: what the server holds, and what looks like something that others handed out, each
//! in every encoding.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use aho_corasick::AhoCorasick;
use baton::chance::{Chance as _, SeededChance};
use baton::operation::Entry;
use baton::operations;
use baton::shape::{Form, Shape};
use serde_json::{Value, json};

use crate::scene::title;

/// Files whose content the server holds as a secret.
const NESTS: [&str; 2] = ["pepper", "seal.key"];

/// Whether the file is where a secret belongs.
pub fn is_nest(path: &Path) -> bool {
    path.file_name().is_some_and(|name| NESTS.iter().any(|nest| name == *nest))
}

/// All secrets, and which of them have been said.
pub struct Birds {
    secrets: Vec<String>,
    said: Vec<String>,
    next: usize,
    flown: BTreeSet<usize>,
    /// Places that are left as they are, by operation.
    apart: &'static [(&'static str, &'static str)],
}

/// How secrets begin, how much follows, and of what: letters and digits, or hex.
const KINDS: [(&str, usize, bool); 12] = [
    ("ghp_", 36, false),
    ("github_pat_", 70, false),
    ("glpat-", 20, false),
    ("xoxb-1234567890-", 24, false),
    ("AKIA", 16, false),
    ("AIza", 35, false),
    ("sk-ant-api03-", 80, false),
    ("sk-proj-", 60, false),
    ("npm_", 36, false),
    ("sk_live_", 24, false),
    ("dop_v1_", 64, true),
    ("hf_", 34, false),
];

impl Birds {
    /// The secrets of a server, and as many others as are needed.
    pub fn hatch(
        data: &Path,
        count: usize,
        apart: &'static [(&'static str, &'static str)],
    ) -> Self {
        let read = |name: &&str| fs::read_to_string(data.join(name)).expect("the server made it");
        let mut secrets: Vec<_> =
            NESTS.iter().map(read).map(|text| text.trim().to_owned()).collect();
        let chance = SeededChance::new(40);
        for (prefix, len, hex) in KINDS.iter().cycle().take(count - secrets.len()) {
            let mut bytes = vec![0; *len];
            chance.fill(&mut bytes);
            let alphabet: &[u8] = match (*hex, *prefix) {
                (true, _) => b"0123456789abcdef",
                (false, "AKIA") => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
                (false, _) => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
            };
            let letter = |byte: &u8| char::from(alphabet[usize::from(*byte) % alphabet.len()]);
            // Whatever chance gave, there are letters of both cases and digits.
            let sure = if *hex || *prefix == "AKIA" { "" } else { "a1B2" };
            let tail: String = bytes[sure.len()..].iter().map(letter).collect();
            secrets.push(format!("{prefix}{sure}{tail}"));
        }
        let said = secrets.iter().flat_map(|secret| encoded(secret)).collect();
        Self { secrets, said, next: 0, flown: BTreeSet::new(), apart }
    }

    /// What must be nowhere.
    pub fn needles(&self) -> AhoCorasick {
        needles(&self.secrets)
    }

    /// Whether each was said in each encoding.
    pub fn all_flew(&self) -> bool {
        self.flown.len() == self.said.len()
    }

    /// Puts secrets into every free text of the arguments, and tells where.
    pub fn fill(&mut self, arguments: &mut Value, entry: &Entry, reached: &mut Vec<String>) {
        let as_it_is = arguments.clone();
        self.put("", arguments, &entry.arguments, reached);
        for (_, place) in self.apart.iter().filter(|(what, _)| *what == title(entry)) {
            arguments[place] = as_it_is[place].clone();
            reached.retain(|own| own != place);
        }
        let Some(entries) = arguments.get_mut("entries").and_then(Value::as_array_mut) else {
            return;
        };
        for one in entries {
            let own = operations::all().iter().find(|own| own.about.name() == one["operation"]);
            let own = own.filter(|own| own.about.changes());
            if let Some(own) = own {
                self.put("", &mut one["arguments"], &own.arguments, &mut vec![]);
            }
        }
    }

    fn put(&mut self, at: &str, value: &mut Value, shape: &Shape, reached: &mut Vec<String>) {
        match shape {
            Shape::Text { bytes_max, form } if is_free(*form) && !at.ends_with("operation") => {
                *value = self.flock(*bytes_max, at.ends_with("path")).into();
                reached.push(at.to_owned());
            }
            Shape::List { of, .. } => {
                if value.is_null() && matches!(**of, Shape::Text { form, .. } if is_free(form)) {
                    *value = json!([""]);
                }
                for one in value.as_array_mut().into_iter().flatten() {
                    self.put(at, one, of, reached);
                }
            }
            Shape::Record(record) if value.is_object() => {
                let taken = taken(value);
                let takes = |name: &str| taken.is_none_or(|taken| taken.contains(&name));
                for field in record.fields.iter().filter(|field| takes(field.name)) {
                    let mut inner = value.get(field.name).cloned().unwrap_or(Value::Null);
                    self.put(&below(at, field.name), &mut inner, &field.shape, reached);
                    if !inner.is_null() {
                        value[field.name] = inner;
                    }
                }
            }
            Shape::Text { .. }
            | Shape::Number { .. }
            | Shape::Flag
            | Shape::Choice(_)
            | Shape::Record(_)
            | Shape::Tagged { .. }
            | Shape::Json => {}
            Shape::Map { of, .. } => {
                for (_, inner) in value.as_object_mut().into_iter().flatten() {
                    self.put(at, inner, of, reached);
                }
            }
        }
    }

    /// As many secrets as there is room for, in turn; in a path those that are no path themselves.
    fn flock(&mut self, bytes_max: usize, in_path: bool) -> String {
        // One part of a path has at most so many bytes.
        let bytes_max = if in_path { bytes_max.min(255) } else { bytes_max };
        let mut text = String::from("x");
        for _ in 0..self.said.len() {
            let said = &self.said[self.next % self.said.len()];
            if text.len() + said.len() + 1 > bytes_max {
                break;
            }
            if !in_path || !said.contains(['/', '\\']) {
                text.push(' ');
                text.push_str(said);
                self.flown.insert(self.next % self.said.len());
            }
            self.next += 1;
        }
        if text.len() > 1 {
            return text;
        }
        // Where there is hardly any room, the shortest has to do.
        let shortest = self.said.iter().min_by_key(|said| said.len()).expect("there are some");
        assert!(shortest.len() <= bytes_max, "{bytes_max} bytes hold no secret at all");
        shortest.clone()
    }
}

/// The texts that a line of a contract takes, by its kind.
fn taken(value: &Value) -> Option<&'static [&'static str]> {
    match value["kind"].as_str().filter(|_| value.get("id").is_some())? {
        "artifact" => Some(&["path"]),
        "gate" => Some(&["command"]),
        "criterion" => Some(&["text", "check"]),
        _ => None,
    }
}

/// What must be nowhere of these secrets: themselves, and what is made of them alone.
pub fn needles(secrets: &[String]) -> AhoCorasick {
    let all = secrets.iter().flat_map(|secret| {
        let inner = (0..3).map(|offset| {
            let length = (secret.len() + offset) * 8 / 6;
            base64(&after(secret, offset))[[0, 2, 3][offset]..length].to_owned()
        });
        encoded(secret).into_iter().take(3).chain(inner)
    });
    AhoCorasick::new(all).expect("they are few")
}

/// The encodings in which a secret is said, the plain ones first.
pub fn encoded(secret: &str) -> Vec<String> {
    let hex = |upper: bool| {
        let digits: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
        if upper { digits.to_uppercase() } else { digits }
    };
    let mut all = vec![secret.to_owned(), hex(false), hex(true)];
    all.extend((0..3).map(|offset| base64(&after(secret, offset))));
    let safe = |text: String| text.replace('+', "-").replace('/', "_");
    all.push(safe(base64(&after(secret, 1))));
    all.push(format!("https://example.com/?a%3D{secret}%26"));
    all.push(format!(r#"{{\"a\":\"\t{secret}\"}}"#));
    all
}

/// The secret after so many other bytes, filled up to whole groups of three.
fn after(secret: &str, offset: usize) -> String {
    let text = format!("{}{secret}", &"..."[..offset]);
    format!("{text}{}", &"..."[..(3 - text.len() % 3) % 3])
}

/// Whole groups as base64.
fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<u8> =
        text.bytes().flat_map(|byte| (0..8).rev().map(move |bit| (byte >> bit) & 1)).collect();
    let digit = |bits: &[u8]| bits.iter().fold(0, |number, bit| number * 2 + usize::from(*bit));
    bits.chunks(6).map(|bits| char::from(DIGITS[digit(bits)])).collect()
}

/// Every place of a shape that takes free text.
pub fn places(at: &str, shape: &Shape, found: &mut Vec<String>) {
    match shape {
        Shape::Text { form, .. } if is_free(*form) && !at.ends_with("operation") => {
            found.push(at.to_owned());
        }
        Shape::List { of, .. } | Shape::Map { of, .. } => places(at, of, found),
        Shape::Record(record) => {
            for field in &record.fields {
                places(&below(at, field.name), &field.shape, found);
            }
        }
        Shape::Text { .. }
        | Shape::Number { .. }
        | Shape::Flag
        | Shape::Choice(_)
        | Shape::Tagged { .. }
        | Shape::Json => {}
    }
}

/// Whether anything may be written there, in one line or in many.
fn is_free(form: Option<Form>) -> bool {
    form.is_none_or(|form| form == Form::LINE)
}

fn below(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}
