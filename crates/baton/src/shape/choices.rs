//! The words of the domain's closed lists.

use baton_domain::command::{Clear, Unfit};
use baton_domain::deadline::Deadline;
use baton_domain::project::{PassedBy, WorkedBy};
use baton_domain::run::{BlockKind, Cap, Certainty, Death, Mark, Mode, Purpose, RunResult};
use baton_domain::task::{Approval, Hold, Kind, Priority};
use baton_domain::trail::Ended;
use baton_domain::view::{Badge, Need};
use baton_store::order::Kind as Caller;
use baton_store::read::RunWord;

use super::{Shape, Shaped};

/// Gives a closed list its words. A variant without one does not compile.
macro_rules! choices {
    ($( $type:ident { $( $variant:ident = $word:literal, )* } )*) => {$(
        impl Shaped for $type {
            fn shape() -> Shape {
                Shape::Choice(&[$($word),*])
            }
        }

        impl Word for $type {
            fn word(&self) -> &'static str {
                match self {
                    $( Self::$variant => $word, )*
                }
            }
        }
    )*};
}

/// Declares closed lists of words that are only for the wire, with how each is written.
macro_rules! words {
    ($(
        $(#[doc = $doc:literal])*
        pub enum $name:ident { $( $(#[doc = $word_doc:literal])* $variant:ident = $word:literal, )* }
    )*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $( $(#[doc = $word_doc])* #[serde(rename = $word)] $variant, )*
        }

        impl crate::shape::Shaped for $name {
            fn shape() -> crate::shape::Shape {
                crate::shape::Shape::Choice(&[$($word),*])
            }
        }

        impl crate::shape::choices::Word for $name {
            fn word(&self) -> &'static str {
                match self {
                    $( Self::$variant => $word, )*
                }
            }
        }
    )*};
}

pub(crate) use words;

/// Something that is written as one word.
pub trait Word {
    /// The word.
    fn word(&self) -> &'static str;
}

choices! {
    Kind {
        Story = "story", Bug = "bug", Spike = "spike", Refactor = "refactor", Chore = "chore",
        Epic = "epic",
    }
    Priority { Low = "low", Normal = "normal", High = "high", Urgent = "urgent", }
    BlockKind {
        NeedsInput = "needs_input", Capability = "capability", Transient = "transient",
        Dependency = "dependency", Limit = "limit",
    }
    Unfit {
        Conflict = "conflict", Gates = "gates", Empty = "empty", NoCommits = "no_commits",
    }
    Clear { Body = "body", Assignee = "assignee", }
    Approval { NotRequired = "not_required", Pending = "pending", Approved = "approved", }
    Hold { Frozen = "frozen", Review = "review", }
    Caller {
        Person = "person", Agent = "agent", Worker = "worker", Bot = "bot", System = "system",
    }
    WorkedBy { Agent = "agent", Baton = "baton", Train = "train", Person = "person", }
    PassedBy { Server = "server", Agent = "agent", Person = "person", }
    Mark { Sent = "sent", Delivered = "delivered", Applied = "applied", }
    RunResult { Verified = "verified", Unverified = "unverified", Rejected = "rejected", }
    Ended {
        Completed = "completed", Failed = "failed", Blocked = "blocked", Released = "released",
        TimedOut = "timed_out", Lost = "lost", Cancelled = "cancelled",
        EndedWithoutResult = "ended_without_result",
    }
    Mode { Solo = "solo", Supervised = "supervised", }
    RunWord {
        Queued = "queued", Delayed = "delayed", Blocked = "blocked", Submitted = "submitted",
        Leased = "leased", Working = "working", WaitingInput = "waiting_input",
        Verifying = "verifying", Stopping = "stopping", Completed = "completed",
        Failed = "failed", Cancelled = "cancelled",
    }
    Certainty {
        NotStarted = "not_started", Executed = "executed", Failed = "failed", Unknown = "unknown",
    }
    Death {
        PidNamespace = "pid_namespace", Cgroup = "cgroup", SubreaperEchild = "subreaper_echild",
        NotStarted = "not_started", None = "none",
    }
    Cap {
        Continuations = "continuations", Losses = "losses", Tries = "tries", Stalls = "stalls",
        Turns = "turns", ToolCalls = "tool_calls", Tokens = "tokens", Budget = "budget",
        Setbacks = "setbacks",
    }
    Deadline {
        ProcessStart = "process_start", PromptWrite = "prompt_write", FirstEvent = "first_event",
        FirstVisibleEvent = "first_visible_event", StreamIdle = "stream_idle",
        ToolIdle = "tool_idle", UserInput = "user_input", Cleanup = "cleanup",
        WallClock = "wall_clock",
    }
    Purpose { Work = "work", Verify = "verify", Merge = "merge", Probe = "probe", }
    Badge {
        Draft = "draft", Waiting = "waiting", Queued = "queued", Delayed = "delayed",
        Running = "running", Silent = "silent", WaitingForInput = "waiting_for_input",
        Blocked = "blocked", NeedsYou = "needs_you", Verifying = "verifying",
        InMergeQueue = "in_merge_queue", MergeFailed = "merge_failed", Stopping = "stopping",
        StopUnverified = "stop_unverified", Frozen = "frozen", Review = "review",
        Failed = "failed", EndedWithoutResult = "ended_without_result", Done = "done",
        DoneUnverified = "done_unverified", Abandoned = "abandoned", Superseded = "superseded",
        Rejected = "rejected", Archived = "archived",
    }
    Need {
        Question = "question", Approval = "approval", Failure = "failure",
        EndedWithoutResult = "ended_without_result", Silent = "silent",
        StopUnverified = "stop_unverified", Starved = "starved", Limit = "limit",
        Recurring = "recurring", Input = "input", DependencyFailed = "dependency_failed",
        ChildrenUndone = "children_undone",
        Review = "review", Verdict = "verdict",
    }
}
