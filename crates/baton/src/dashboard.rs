//! The dashboard: what people see of their tasks in a browser. It is one more caller of the table:
//! a page asks for operations like anybody else, under the key of whoever looks, and draws what
//! they answer. What a page offers to do is a request to the table, too, which its script sends.
//!
//! A page is a [`Sheet`]: what stands in its middle, and the pieces of it that change by
//! themselves. The same sheet is the first answer and every live update after it.

use std::sync::Arc;

use baton_domain::text::Text;
use baton_domain::time::Timestamp;
use maud::{Markup, html};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::call::{Call, Envelope};
use crate::identity::{Caller, Identity};
use crate::operations;
use crate::problem::Problem;
use crate::views::StatsView;

mod activity;
mod agents;
mod assets;
mod board;
mod card;
mod channels;
mod diff;
mod forms;
mod frame;
mod inbox;
mod logs;
mod panels;
mod paths;
mod runs;
mod sheet;
mod task;
mod timeline;
mod words;

pub use assets::{Asset, asset, packed};
pub use frame::{Theme, sign_in, trouble};
pub use paths::Screen;
pub use sheet::{Patch, Sheet};

/// Somebody who looks.
pub struct Onlooker {
    identity: Arc<Identity>,
    caller: Caller,
}

impl Onlooker {
    /// Whoever was let in as this caller.
    #[must_use]
    pub fn new(identity: Arc<Identity>, caller: Caller) -> Self {
        Self { identity, caller }
    }

    /// What a screen shows now.
    pub async fn look(&self, screen: &Screen) -> Result<Sheet, Problem> {
        let (stats, health) = tokio::join!(
            self.ask::<StatsView>(("stats", "show"), json!({})),
            self.ask::<frame::Health>(("health", "show"), json!({})),
        );
        let (stats, health) = (stats?, health?);
        let mut sheet = match screen {
            Screen::Inbox(picked) => inbox::sheet(self, *picked, &stats).await?,
            Screen::Board(wish) => board::sheet(self, wish).await?,
            Screen::Runs(wish) => runs::sheet(self, wish, &stats).await?,
            Screen::Agents => agents::sheet(self).await?,
            Screen::Task(task, run, tab) => task::sheet(self, (*task, *run), *tab).await?,
        };
        sheet.inbox = stats.inbox;
        sheet.health = frame::health(&health, &stats);
        sheet.chips = html! { (channels::broken(self).await) (sheet.chips) };
        Ok(sheet)
    }

    /// A whole page.
    pub async fn page(&self, screen: &Screen, theme: Theme) -> Result<Markup, Problem> {
        // Who opens the inbox is shown what is first, and stays with that.
        let first = match screen {
            Screen::Inbox(None) => Screen::Inbox(inbox::first(self).await?),
            Screen::Inbox(Some(_))
            | Screen::Board(_)
            | Screen::Runs(_)
            | Screen::Agents
            | Screen::Task(..) => screen.clone(),
        };
        let sheet = self.look(&first).await?;
        Ok(frame::page(&first, &sheet, theme))
    }

    /// How far the events of whoever looks are, or were a moment ago; none if that cannot be read now.
    pub async fn head(&self) -> Option<u64> {
        self.identity.engine().head_lately(&self.caller.tenant).await.ok()
    }

    /// Now, on the clock of the store.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.identity.engine().now()
    }

    /// Asks for an operation that only reads.
    async fn ask<T: DeserializeOwned>(
        &self,
        (noun, verb): (&str, &str),
        arguments: Value,
    ) -> Result<T, Problem> {
        let entry = operations::find(noun, verb).expect("pages ask for what is in the table");
        let origin = Text::new("origin", "web").expect("a plain word is a text");
        let asked = (&entry.about, &arguments);
        let (identity, caller) = (Arc::clone(&self.identity), self.caller.clone());
        let call = Call::new(identity, caller, Envelope::default(), origin, asked);
        let mut body = entry.perform(arguments, Arc::new(call)).await?.body;
        // What is said around every answer is no part of the record itself.
        if let Some(record) = body.as_object_mut() {
            record.remove("as_of");
        }
        let broken = |error: serde_json::Error| Problem::new("internal", error.to_string());
        serde_json::from_value(body).map_err(broken)
    }
}

#[cfg(test)]
mod tests;
