//! Places in the history of a task, and walks through it that end.

use std::fmt;
use std::str::FromStr;

use baton_domain::Refusal;
use baton_domain::history::Past;
use baton_domain::ids::TaskId;
use baton_store::HistoryKey;
use baton_store::read::PAGE_MAX;
use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::problem::Problem;
use crate::shape::{Form, Shape, Shaped};

/// Pages that one walk reads: ten thousand rows of one task.
pub const PAGES_MAX: usize = 20;

/// Where a page of a history ended; opaque to callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bookmark(pub HistoryKey);

impl Shaped for Bookmark {
    fn shape() -> Shape {
        let pattern = "^[0-9]{1,19}-[0-9]{1,3}-[0-9]{1,10}$";
        let form = Form { pattern, example: "12-1-3", longest: None, usual: None };
        Shape::Text { bytes_max: 34, form: Some(form) }
    }
}

impl FromStr for Bookmark {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let read = || {
            let mut parts = text.splitn(3, '-');
            let version = parts.next()?.parse().ok()?;
            let sort = parts.next()?.parse().ok()?;
            let number = parts.next()?.parse().ok()?;
            let bookmark = Self(HistoryKey { version, sort, number });
            (bookmark.to_string() == text).then_some(bookmark)
        };
        read().ok_or_else(|| {
            let rule = "must be the `next` of an earlier answer";
            Refusal::Invalid { field: "after".into(), rule: rule.into() }
        })
    }
}

impl fmt::Display for Bookmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.0.version, self.0.sort, self.0.number)
    }
}

impl TryFrom<String> for Bookmark {
    type Error = Refusal;

    fn try_from(text: String) -> Result<Self, Refusal> {
        text.parse()
    }
}

impl From<Bookmark> for String {
    fn from(bookmark: Bookmark) -> Self {
        bookmark.to_string()
    }
}

/// What was picked of a history.
pub struct Picked<T> {
    /// Oldest first.
    pub items: Vec<T>,
    /// Where to go on; none at the end.
    pub next: Option<Bookmark>,
}

/// Picks from the history of a task until there are enough, or enough was looked at.
pub async fn pick<T>(
    call: &Call,
    task: TaskId,
    after: Option<Bookmark>,
    count_max: usize,
    mut pick: impl FnMut(&Past) -> Option<T> + Send,
) -> Result<Picked<T>, Problem> {
    let tenant = &call.caller().tenant;
    let count_max = count_max.clamp(1, PAGE_MAX);
    let mut picked = Picked { items: vec![], next: after };
    for _ in 0..PAGES_MAX {
        let after = picked.next.map(|bookmark| bookmark.0);
        // No more than may be wanted, so that the next page goes on where this one ended.
        let wanted = count_max - picked.items.len();
        let list = call.engine().history(tenant, task, after, wanted).await?;
        picked.items.extend(list.rows.iter().filter_map(&mut pick));
        picked.next = list.next.map(Bookmark);
        if picked.next.is_none() || picked.items.len() >= count_max {
            break;
        }
    }
    Ok(picked)
}
