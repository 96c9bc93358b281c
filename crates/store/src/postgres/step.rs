//! One thing that a batch is to do: an order, or what time brings to a task.

use std::borrow::Cow;

use baton_domain::command::{Claim, Command};
use baton_domain::ids::{ProjectId, TaskId, TenantId};
use baton_domain::lane::Claimant;

use super::room::{Ledger, Room};
use crate::order::{Actor, Aim, Order, Request};
use crate::ruling::needs;

/// One thing to do.
pub(super) struct Step<'a> {
    pub(super) tenant: i64,
    pub(super) tenant_id: TenantId,
    /// The tenant among whose request keys its own is.
    pub(super) asked_in: i64,
    pub(super) actor: &'a Actor,
    pub(super) goal: Goal<'a>,
    pub(super) request: Option<&'a Request>,
    pub(super) cause: Cause,
    /// Whether it ends or eases work, rather than adding to it.
    pub(super) ends: bool,
}

/// Why it is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Somebody ordered it.
    Order,
    /// It is due, unless somebody else was faster.
    Due,
    /// Another task owes it, as this row says.
    Owed(i64),
}

/// What it is about.
pub(super) enum Goal<'a> {
    Task(TaskId, Cow<'a, [Command]>),
    Birth(&'a ProjectId, &'a [Command]),
    Next(&'a Claim),
    /// No task: a record, or a key.
    Nothing,
}

impl<'a> Step<'a> {
    /// The step of an order that is about tasks; none for records, keys and sweeps.
    pub(super) fn of(order: &'a Order, tenant: i64) -> Option<Self> {
        let goal = match &order.aim {
            Aim::Task(id, commands) => Goal::Task(*id, Cow::Borrowed(commands)),
            Aim::Birth(project, commands) => Goal::Birth(project, commands),
            Aim::Next(claim) => Goal::Next(claim),
            Aim::Record(..) | Aim::Key(_) | Aim::Channel(_) | Aim::Sweep(_) => return None,
        };
        let ends = order.ends_work();
        let (tenant_id, request) = (order.tenant.clone(), order.request.as_ref());
        Some(Self {
            tenant,
            tenant_id,
            asked_in: tenant,
            actor: &order.actor,
            goal,
            request,
            cause: Cause::Order,
            ends,
        })
    }

    /// The task that it names.
    pub(super) fn task(&self) -> Option<TaskId> {
        match &self.goal {
            Goal::Task(id, _) => Some(*id),
            Goal::Birth(..) | Goal::Next(_) | Goal::Nothing => None,
        }
    }

    /// Whether somebody else holds what it is about.
    pub(super) fn is_held_elsewhere(&self, room: &Room) -> bool {
        if room.elsewhere.is_empty() {
            return false;
        }
        let named = self.needs(None).named;
        let mut tasks = self.task().into_iter().chain(named);
        tasks.any(|task| room.elsewhere.contains(&(self.tenant, task)))
    }

    /// The reaction that it carries out.
    pub(super) fn owed(&self) -> Option<i64> {
        match self.cause {
            Cause::Owed(row) => Some(row),
            Cause::Order | Cause::Due => None,
        }
    }

    /// Who wants to hold something by it.
    pub(super) fn claimants(&self) -> impl Iterator<Item = &Claimant> {
        let (next, named) = match &self.goal {
            Goal::Next(claim) => (Some(&claim.claimant), &[][..]),
            Goal::Task(_, commands) => (None, &commands[..]),
            Goal::Birth(..) | Goal::Nothing => (None, &[][..]),
        };
        let named = named.iter().filter_map(|command| match command {
            Command::Claim(claim) => Some(&claim.claimant),
            Command::Create(_)
            | Command::Expect(_)
            | Command::Person(_)
            | Command::Agent(..)
            | Command::Supervisor(..)
            | Command::Verifier(..)
            | Command::Time(_) => None,
        });
        next.into_iter().chain(named)
    }

    /// Whether it claims what it has just made or moved: which pools that meets is known only once it is
    /// judged.
    pub(super) fn claims_its_own(&self) -> bool {
        let commands = match &self.goal {
            Goal::Task(_, commands) => &commands[..],
            Goal::Birth(_, commands) => commands,
            Goal::Next(_) | Goal::Nothing => &[],
        };
        commands.len() > 1 && commands.iter().any(|one| matches!(one, Command::Claim(_)))
    }

    pub(super) fn is_claim(&self) -> bool {
        matches!(self.goal, Goal::Next(_))
    }

    pub(super) fn is_birth(&self) -> bool {
        matches!(self.goal, Goal::Birth(..))
    }

    /// The task that an earlier request with the same key was about, if it is not in the room.
    pub(super) fn replayed_task(&self, ledger: &Ledger) -> Option<TaskId> {
        let key = (self.actor.principal.clone(), self.request?.key.as_str().to_owned());
        let task = ledger.earlier.get(&key)?.task?;
        (!ledger.tasks.contains_key(&task)).then_some(task)
    }
}

/// Whether an order must be the only one of its batch, because it looks at what others of the batch
/// may be changing: records, keys, and the graph around a task.
pub(super) fn is_alone(aim: &Aim) -> bool {
    let looks_around = |commands: &[Command]| {
        let needs = needs(commands, None);
        !needs.named.is_empty()
            || !needs.upstream_of.is_empty()
            || needs.siblings_of.is_some()
            || needs.children
            || needs.dependencies
    };
    match aim {
        Aim::Task(_, commands) | Aim::Birth(_, commands) => looks_around(commands),
        Aim::Next(_) => false,
        Aim::Record(..) | Aim::Key(_) | Aim::Channel(_) | Aim::Sweep(_) => true,
    }
}
