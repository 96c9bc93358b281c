//! What can happen, each with the word that callers know it by.

use baton_domain::channel::ChannelEvent;
use baton_domain::event::Event;
use baton_domain::key::KeyEvent;
use baton_domain::project::RecordEvent;
use baton_domain::time::{Millis, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::shape::choices::Word as _;
use crate::shape::{Shape, Shaped, Span, When, words};

words! {
    /// What happened.
    pub enum EventKind {
        /// It was made.
        Created = "created",
        /// It was changed.
        Edited = "edited",
        /// It may happen now.
        Published = "published",
        /// Somebody agreed.
        Approved = "approved",
        /// It stands in another column.
        Moved = "moved",
        /// What Baton or the train did in a stage failed: somebody puts it right in the one before.
        SetBack = "set_back",
        /// It landed on the target branch.
        Merged = "merged",
        /// It ended.
        Ended = "ended",
        /// It was put away.
        Archived = "archived",
        /// A hold was put on it or lifted.
        HoldSet = "hold_set",
        /// Something will happen as soon as nothing stops it.
        Owing = "owing",
        /// It waits for another task.
        DependencyAdded = "dependency_added",
        /// It waits no longer.
        DependencyRemoved = "dependency_removed",
        /// A task that it waits for ended.
        DependencySettled = "dependency_settled",
        /// All its children have ended, so many of them otherwise than done; or, with none, no more.
        ChildrenSettled = "children_settled",
        /// A task that its agent made ended, or is stuck.
        Woken = "woken",
        /// A pass began.
        RunOpened = "run_opened",
        /// A pass that nobody held ended.
        RunFinished = "run_finished",
        /// A parked or delayed run waits for a holder again.
        Requeued = "requeued",
        /// It queued for too long.
        Starved = "starved",
        /// An attempt began.
        Claimed = "claimed",
        /// It was at work.
        Began = "began",
        /// It was seen to do something.
        Seen = "seen",
        /// It told how far it was.
        Progressed = "progressed",
        /// It left a note for the next one.
        Checkpointed = "checkpointed",
        /// It asked.
        Asked = "asked",
        /// It no longer wanted to know.
        Withdrawn = "withdrawn",
        /// A person answered.
        Answered = "answered",
        /// The answer got further.
        AnswerMarked = "answer_marked",
        /// It cost so much more than was known before.
        Spent = "spent",
        /// It says that it is done.
        Submitted = "submitted",
        /// Lines of the contract were checked.
        Verified = "verified",
        /// It is known what the project asks for.
        Bound = "bound",
        /// A reviewer said what was found.
        Reviewed = "reviewed",
        /// The agent ended while it was being verified.
        Exited = "exited",
        /// Death is awaited; then the verdict counts.
        Stopping = "stopping",
        /// A process was seen that would not die.
        Survived = "survived",
        /// An attempt ended.
        AttemptEnded = "attempt_ended",
        /// The death of an earlier attempt was proved after all.
        DeathProved = "death_proved",
        /// A project was added or changed.
        ProjectPut = "project_put",
        /// A project was forgotten.
        ProjectRemoved = "project_removed",
        /// A pool was limited, or its limit lifted.
        PoolLimited = "pool_limited",
        /// A pool was paused.
        PoolShut = "pool_shut",
        /// A pause was lifted.
        PoolOpened = "pool_opened",
        /// A key was made.
        ChannelAdded = "channel_added",
        ChannelRemoved = "channel_removed",
        KeyCreated = "key_created",
        /// Its secret was exchanged.
        KeyRotated = "key_rotated",
        /// A key was revoked, and with it those that it had made.
        KeyRevoked = "key_revoked",
        /// Something that this binary cannot read: a newer one wrote it.
        Unknown = "unknown",
    }
}

/// One thing that happened: it names itself in `event`, the rest follows from that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Happening(Value);

impl Shaped for Happening {
    fn shape() -> Shape {
        let Shape::Choice(words) = EventKind::shape() else { return Shape::Json };
        Shape::Tagged { tag: "event", words }
    }
}

impl Happening {
    /// Something that happened to a task.
    #[must_use]
    pub fn to_task(event: &Event) -> Self {
        Self::new(of_task(event), serde_json::to_value(event))
    }

    /// Something that happened to a record.
    #[must_use]
    pub fn to_record(event: &RecordEvent) -> Self {
        Self::new(of_record(event), serde_json::to_value(event))
    }

    /// What a newer binary wrote, passed on as it is.
    #[must_use]
    pub fn unknown(raw: Value) -> Self {
        Self(serde_json::json!({ "event": EventKind::Unknown.word(), "raw": raw }))
    }

    /// Whether it is of that kind.
    #[must_use]
    pub fn is(&self, kind: EventKind) -> bool {
        self.0["event"] == kind.word()
    }

    /// The word for what it is.
    #[must_use]
    pub fn word(&self) -> &str {
        self.0["event"].as_str().unwrap_or_default()
    }

    /// Something that it tells, by its name.
    #[must_use]
    pub fn told(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    fn new(kind: EventKind, event: Result<Value, serde_json::Error>) -> Self {
        let mut value = event.expect("an event was JSON when it was written");
        strip(&mut value);
        spell(&mut value);
        value["event"] = kind.word().into();
        Self(value)
    }
}

/// What is absent is left out: there is no null on any surface.
fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, inner| !inner.is_null());
            map.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Lengths of time, by the names that they have wherever they stand.
const SPANS: [&str; 8] =
    ["backoff", "backoff_max", "lease", "wall", "input", "starved", "timeout", "overlap"];

/// Writes times and lengths of time as every other answer does: rows keep them in milliseconds.
fn spell(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                let is_time =
                    name == "at" || ["_at", "until", "since"].iter().any(|end| name.ends_with(end));
                match (inner.as_i64(), inner.as_u64()) {
                    (Some(at), _) if is_time => *inner = When(Timestamp(at)).to_string().into(),
                    (_, Some(length)) if SPANS.contains(&name.as_str()) => {
                        *inner = Span(Millis(length)).to_string().into();
                    }
                    _ => spell(inner),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(spell),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn of_task(event: &Event) -> EventKind {
    match event {
        Event::Created { .. } => EventKind::Created,
        Event::Edited { .. } => EventKind::Edited,
        Event::Published => EventKind::Published,
        Event::Approved => EventKind::Approved,
        Event::Moved { .. } => EventKind::Moved,
        Event::SetBack { .. } => EventKind::SetBack,
        Event::Merged { .. } => EventKind::Merged,
        Event::Ended { .. } => EventKind::Ended,
        Event::Archived => EventKind::Archived,
        Event::HoldSet { .. } => EventKind::HoldSet,
        Event::Owing { .. } => EventKind::Owing,
        Event::DependencyAdded { .. } => EventKind::DependencyAdded,
        Event::DependencyRemoved { .. } => EventKind::DependencyRemoved,
        Event::DependencySettled { .. } => EventKind::DependencySettled,
        Event::ChildrenSettled { .. } => EventKind::ChildrenSettled,
        Event::Woken { .. } => EventKind::Woken,
        Event::RunOpened { .. } => EventKind::RunOpened,
        Event::RunFinished { .. } => EventKind::RunFinished,
        Event::Requeued { .. } => EventKind::Requeued,
        Event::Starved => EventKind::Starved,
        Event::Claimed { .. } => EventKind::Claimed,
        Event::Began => EventKind::Began,
        Event::Seen { .. } => EventKind::Seen,
        Event::Progressed { .. } => EventKind::Progressed,
        Event::Checkpointed { .. } => EventKind::Checkpointed,
        Event::Asked { .. } => EventKind::Asked,
        Event::Withdrawn => EventKind::Withdrawn,
        Event::Answered { .. } => EventKind::Answered,
        Event::AnswerMarked { .. } => EventKind::AnswerMarked,
        Event::Spent { .. } => EventKind::Spent,
        Event::Submitted { .. } => EventKind::Submitted,
        Event::Verified { .. } => EventKind::Verified,
        Event::Bound { .. } => EventKind::Bound,
        Event::Reviewed { .. } => EventKind::Reviewed,
        Event::Exited => EventKind::Exited,
        Event::Stopping { .. } => EventKind::Stopping,
        Event::Survived => EventKind::Survived,
        Event::AttemptEnded { .. } => EventKind::AttemptEnded,
        Event::DeathProved { .. } => EventKind::DeathProved,
    }
}

/// A pool that was paused and one that was opened again are told apart, though one record keeps
/// both.
fn of_record(event: &RecordEvent) -> EventKind {
    match event {
        RecordEvent::ProjectPut { .. } => EventKind::ProjectPut,
        RecordEvent::ProjectRemoved { .. } => EventKind::ProjectRemoved,
        RecordEvent::PoolLimited { .. } => EventKind::PoolLimited,
        RecordEvent::PoolShut { shut: Some(_), .. } => EventKind::PoolShut,
        RecordEvent::PoolShut { shut: None, .. } => EventKind::PoolOpened,
        RecordEvent::Channel(ChannelEvent::ChannelAdded { .. }) => EventKind::ChannelAdded,
        RecordEvent::Channel(ChannelEvent::ChannelRemoved { .. }) => EventKind::ChannelRemoved,
        RecordEvent::Key(KeyEvent::KeyCreated { .. }) => EventKind::KeyCreated,
        RecordEvent::Key(KeyEvent::KeyRotated { .. }) => EventKind::KeyRotated,
        RecordEvent::Key(KeyEvent::KeyRevoked { .. }) => EventKind::KeyRevoked,
    }
}
