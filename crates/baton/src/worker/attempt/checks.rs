//! What an attempt submitted is checked, beside its agent or after it: the work is kept first, as one commit.

use crate::protocol::{Ask, Gates};
use crate::worktree::Snapshot;

use super::super::check::{Checking, Pinned, Subject};
use super::super::course::{Input, Said, Why};
use super::super::ground::Ground;
use super::super::prepare::Whose;
use super::{Driver, now};

impl Driver {
    /// The work is being kept as it is now, which is as it was submitted, or newer.
    pub(super) fn check_begins(&mut self) {
        if let Some((_, begun)) = &mut self.asked {
            *begun = true;
        }
    }

    /// Has the work kept for a check that waits for it.
    pub(super) fn check_now(&mut self) {
        let Some((asks, false)) = &self.asked else { return };
        if self.checking.is_some() {
            // It is told again after a connection was lost.
            self.asked = None;
        } else if self.ground.as_ref().and_then(Ground::worktree).is_none() {
            let subject = self.subject(asks.clone());
            self.asked = None;
            self.checking = Some(Checking::of_nothing(&self.premises, subject));
        } else if self.keeping.is_none() {
            self.keep(Why::Phase);
        }
    }

    /// The work was kept, or could not be: if somebody waits for that, it is checked.
    pub(super) async fn check_kept(&mut self, kept: Result<Snapshot, String>) {
        let Some((asks, true)) = self.asked.clone() else { return self.check_now() };
        self.asked = None;
        let worktree = self.ground.as_ref().and_then(Ground::worktree);
        let depot = worktree.map(|worktree| worktree.depot());
        match (kept, depot) {
            (Ok(snapshot), Some(Ok(depot))) => {
                let (base, commit) = (snapshot.base, snapshot.commit);
                let subject = self.subject(asks);
                let pinned = Pinned { depot, base, commit };
                let checking = Checking::begin(&self.premises, &self.courier, subject, pinned);
                self.checking = Some(checking);
            }
            (Err(why), _) => self.feed(Input::Unchecked(why), now()).await,
            (Ok(_), Some(Err(error))) => {
                self.feed(Input::Unchecked(error.to_string()), now()).await;
            }
            (Ok(_), None) => {
                self.feed(Input::Unchecked("its folder is gone".to_owned()), now()).await;
            }
        }
    }

    fn subject(&self, asks: Vec<Ask>) -> Subject {
        let (deployment, tenant) =
            (self.card.whose_deployment.clone(), self.card.whose_tenant.clone());
        let whose = Whose { deployment, tenant };
        Subject { whose, dispatch: self.card.dispatch.clone(), asks }
    }

    /// Whatever ends the attempt calls its checks off.
    pub(super) fn mind(&mut self, input: &Input) {
        let ends = matches!(input, Input::Drain | Input::Said(Said::Cancel(_) | Said::Fenced(_)));
        if let Some(checking) = self.checking.as_ref().filter(|_| ends) {
            checking.call_off();
        }
    }

    /// It is known what was found, or it is not.
    pub(super) async fn checked(&mut self, found: Result<Gates, String>) {
        self.checking = None;
        let attempt = self.card.dispatch.attempt;
        let input = match found {
            Ok(frame) => match self.link.tell(frame) {
                Ok(_) => Input::Checked,
                Err(error) => Input::Unchecked(error.to_string()),
            },
            Err(why) => {
                tracing::warn!(%attempt, why, "what it submitted was not checked");
                Input::Unchecked(why)
            }
        };
        self.feed(input, now()).await;
    }
}
