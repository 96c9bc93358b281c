//! What happened, as callers see it.

use baton_domain::ids::{PrincipalId, TaskId};
use baton_domain::project::RecordEvent;
use baton_domain::text::Text;
use baton_store::order::Kind;
use baton_store::read::{About, Happened};
use baton_store::{Actor, Cursor, Entry};
use serde_json::Value;

use super::Happening;
use crate::shape::{Position, When, record};

record! {
    /// What one request changed of one task, or of projects and pools.
    pub struct EventView {
        /// Its place: whoever goes on from here sees what follows.
        cursor: Position,
        /// When.
        at: When,
        /// Who, and by which way.
        actor: ActorView,
        /// Which task; absent for projects and pools.
        task: Option<TaskId>,
        /// Which version of the task it led to, or of all projects and pools together.
        version: u64,
        /// What happened, in order; each names itself in `event`. What happened to keys is told to those who may read keys.
        events: Vec<Happening>,
        /// Whether its words were erased on purpose.
        erased: Option<bool>,
    }

    /// Who did something, and by which way.
    pub struct ActorView {
        /// Who.
        principal: PrincipalId,
        /// What sort of caller.
        kind: Kind,
        /// By which way: cli, rest, mcp, worker or clockwork.
        origin: Text<64>,
        /// What ties it to other records of the same request.
        trace: Option<Text<64>>,
    }
}

impl EventView {
    /// An entry of this life of the store as callers see it. Whoever may not read keys sees that
    /// something happened in its place, so that no place is missing, but not what.
    #[must_use]
    pub fn of(entry: &Entry, incarnation: u64, with_keys: bool) -> Self {
        let (task, version) = match entry.about {
            About::Task(task, version) => (Some(task), version),
            About::Records(version) => (None, version),
        };
        let events = match &entry.happened {
            Happened::ToTask(events) => events.iter().map(Happening::to_task).collect(),
            Happened::ToRecord(events) => {
                let seen = events.iter().filter(|event| with_keys || !is_of_keys(event));
                seen.map(Happening::to_record).collect()
            }
            // What this binary cannot read may be about keys.
            Happened::Unknown(_) if task.is_none() && !with_keys => vec![],
            Happened::Unknown(raw) => unknown(raw),
            Happened::Erased => vec![],
        };
        Self {
            cursor: Position(Cursor { incarnation, position: entry.position }),
            at: When(entry.at),
            actor: ActorView::of(&entry.actor),
            task,
            version,
            events,
            erased: (entry.happened == Happened::Erased).then_some(true),
        }
    }
}

fn is_of_keys(event: &RecordEvent) -> bool {
    match event {
        RecordEvent::Key(_) => true,
        RecordEvent::ProjectPut { .. }
        | RecordEvent::ProjectRemoved { .. }
        | RecordEvent::PoolLimited { .. }
        | RecordEvent::PoolShut { .. }
        | RecordEvent::Channel(_) => false,
    }
}

/// What a newer binary wrote is passed on as it is.
fn unknown(raw: &str) -> Vec<Happening> {
    let values = match serde_json::from_str(raw) {
        Ok(Value::Array(events)) => events,
        Ok(event) => vec![event],
        Err(_) => vec![Value::from(raw)],
    };
    values.into_iter().map(Happening::unknown).collect()
}

impl ActorView {
    fn of(actor: &Actor) -> Self {
        Self {
            principal: actor.principal.clone(),
            kind: actor.kind,
            origin: actor.origin.clone(),
            trace: actor.trace.clone(),
        }
    }
}
