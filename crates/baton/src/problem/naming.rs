//! What a request was about, in the words of whoever made it.

use serde_json::Value;

/// Arguments that name things, in the order in which a sentence tells them.
const NAMES: [&str; 13] = [
    "project",
    "task",
    "run",
    "attempt",
    "key",
    "on",
    "by",
    "parent",
    "depends_on",
    "waits_for",
    "number",
    "line",
    "after",
];
/// How many things a sentence names at most.
const NAMED_MAX: usize = 6;
/// How long a name may be to be told again.
const NAME_BYTES_MAX: usize = 80;

/// The things that a request named.
#[derive(Clone, Debug, Default)]
pub(super) struct Named(Vec<(&'static str, String)>);

impl Named {
    pub(super) fn of(arguments: &Value) -> Self {
        let mut named = vec![];
        for name in NAMES {
            let Some(value) = arguments.get(name) else { continue };
            let alone = std::slice::from_ref(value);
            for value in value.as_array().map_or(alone, Vec::as_slice) {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                named.extend((text.len() <= NAME_BYTES_MAX).then_some((name, text)));
            }
        }
        Self(named)
    }

    /// That one of them is not there. Which one of several would be a look behind the curtain.
    pub(super) fn missing(&self) -> Option<String> {
        match &self.0[..] {
            [] => None,
            [(name, text)] => Some(format!("there is no {name} `{text}`")),
            all if all.len() > NAMED_MAX => None,
            all => {
                let all: Vec<_> =
                    all.iter().map(|(name, text)| format!("{name} `{text}`")).collect();
                Some(format!("one of these is not there: {}", all.join(", ")))
            }
        }
    }

    /// Where to look for what is not there.
    pub(super) fn list(&self) -> Option<&'static str> {
        match self.0.first() {
            Some(("project", _)) if self.0.len() == 1 => Some("baton project list"),
            Some(("key", _)) => Some("baton key list"),
            Some(_) | None => None,
        }
    }

    /// A next step that names what it is about. Where the request did not name it, the list of such
    /// things is the next step.
    pub(super) fn fill(&self, step: &str, more: &[(&'static str, Value)]) -> String {
        let Some((before, rest)) = step.split_once('{') else { return step.to_owned() };
        let Some((name, after)) = rest.split_once('}') else { return step.to_owned() };
        match self.find(name).or_else(|| attempt_of(name, more)) {
            Some(text) => format!("{before}{text}{after}"),
            None => match name {
                "project" => "baton project list".to_owned(),
                "run" => "baton run list".to_owned(),
                _ => "baton ls".to_owned(),
            },
        }
    }

    fn find(&self, name: &str) -> Option<String> {
        let said = |name: &str| self.0.iter().find(|(own, _)| *own == name).map(|(_, text)| text);
        match (name, said(name), said("run"), said("task")) {
            (_, Some(text), ..) => Some(text.clone()),
            ("task", None, Some(run), _) => task_of(run),
            // A task names its live run.
            ("run", None, None, Some(task)) => Some(task.clone()),
            _ => None,
        }
    }
}

/// The task of a run or an attempt: `T-128` of `R-128.2`, of `A-128.3` and of `T-128`.
fn task_of(number: &str) -> Option<String> {
    let rest = ["T-", "R-", "A-"].iter().find_map(|prefix| number.strip_prefix(prefix))?;
    let digits = rest.split('.').next()?;
    Some(format!("T-{digits}"))
}

fn attempt_of(name: &str, more: &[(&'static str, Value)]) -> Option<String> {
    let (_, attempt) = more.iter().find(|(own, _)| name == "task" && *own == "attempt")?;
    task_of(attempt.as_str()?)
}
