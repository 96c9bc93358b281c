//! The filter language: words with a name before a colon pick by what a task is, all others by what
//! it says. `is:blocked stage:qa label:api login` are the blocked tasks in qa with that label that
//! speak of a login.

use std::fmt;

use serde_json::{Map, Value};

/// Bytes of a filter; what is longer is cut.
const BYTES_MAX: usize = 256;

/// The names that a filter knows, and the argument of `task list` that each stands for.
const NAMES: [(&str, &str); 7] = [
    ("is", "badge"),
    ("stage", "stage"),
    ("kind", "kind"),
    ("label", "label"),
    ("agent", "holder"),
    ("for", "assignee"),
    ("in", "parent"),
];

/// What tasks must be like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// What was typed, name and value; without a name, words to look for.
    parts: Vec<(Option<&'static str>, String)>,
}

impl Filter {
    /// Reads what somebody typed. A name that there is not is a word like any other.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let end = text.floor_char_boundary(BYTES_MAX);
        let part = |word: &str| {
            let named = word.split_once(':').and_then(|(name, value)| {
                let known = NAMES.iter().find(|(own, _)| *own == name)?;
                (!value.is_empty()).then(|| (Some(known.0), value.to_owned()))
            });
            named.unwrap_or_else(|| (None, word.to_owned()))
        };
        Self { parts: text[..end].split_whitespace().map(part).collect() }
    }

    /// Whether everything passes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The arguments of `task list` that pick the same; of two of one name the last counts.
    #[must_use]
    pub fn arguments(&self) -> Map<String, Value> {
        let mut arguments = Map::new();
        let mut words = vec![];
        for (name, value) in &self.parts {
            let known = NAMES.iter().find(|(own, _)| Some(*own) == *name);
            match known {
                Some((_, argument)) => {
                    // People write `needs-you` as often as `needs_you`.
                    let is_badge = *argument == "badge";
                    let spelled = value.to_lowercase().replace('-', "_");
                    let value = if is_badge { spelled } else { value.clone() };
                    arguments.insert((*argument).to_owned(), value.into());
                }
                None => words.push(value.as_str()),
            }
        }
        if !words.is_empty() {
            arguments.insert("text".into(), words.join(" ").into());
        }
        arguments
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.parts.iter().enumerate() {
            let gap = if index > 0 { " " } else { "" };
            match name {
                Some(name) => write!(f, "{gap}{name}:{value}")?,
                None => write!(f, "{gap}{value}")?,
            }
        }
        Ok(())
    }
}
