//! What a request was about, in the words of whoever made it.

use serde_json::Value;

/// Arguments that name things, in the order in which a sentence tells them.
const NAMES: [&str; 9] = ["project", "task", "run", "attempt", "key", "on", "by", "parent", "line"];
/// How long a name may be to be told again.
const NAME_BYTES_MAX: usize = 80;

/// The things that a request named.
#[derive(Clone, Debug, Default)]
pub(super) struct Named(Vec<(&'static str, String)>);

impl Named {
    pub(super) fn of(arguments: &Value) -> Self {
        let one = |name: &'static str| {
            let text = arguments.get(name)?.as_str()?;
            (text.len() <= NAME_BYTES_MAX).then(|| (name, text.to_owned()))
        };
        Self(NAMES.into_iter().filter_map(one).collect())
    }

    /// That one of them is not there.
    pub(super) fn missing(&self) -> Option<String> {
        match &self.0[..] {
            [] => None,
            [(name, text)] => Some(format!("there is no {name} `{text}`")),
            [all @ .., last] => {
                let all: Vec<_> = all.iter().map(|(name, text)| format!("no {name} `{text}`")).collect();
                Some(format!("there is {} or no {} `{}`", all.join(", "), last.0, last.1))
            }
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
