//! What callers see: rows of the store in the words of the glossary, with everything derived that
//! people ask for first.

mod attempt;
mod channel;
mod contract;
mod diff;
mod event;
mod explain;
mod handoff;
mod happening;
mod inbox;
mod log;
mod policy;
mod pool;
mod project;
mod run;
mod stats;
mod task;
mod worker;

pub use attempt::{AttemptView, CheckpointView, FoundWord, ReceiptView};
pub use channel::ChannelView;
pub use contract::{ContractLine, LineKind};
pub use diff::{DIFF_FILES_MAX, DiffView, FileChange, PATCH_BYTES_MAX};
pub use event::{ActorView, EventView};
pub use explain::{CauseCode, CauseView};
pub use handoff::{HandoffItem, HandoffSection, HandoffView, Room, stripped};
pub use happening::{EventKind, Happening};
pub use inbox::{InboxItem, Lookup};
pub use log::{LOG_LINES_MAX, LogLine, LogView, LogVoice};
pub use policy::PolicyView;
pub use pool::{MoneyView, PauseView, PoolView};
pub use project::{ProjectView, StageView};
pub use run::{AnswerView, BlockView, Knob, Lacking, LeaseView, QuestionView, RunView};
pub use stats::{ColumnView, ExhaustedView, HealthView, StatsView, TroubleCode, TroubleView};
pub use task::{EndedWord, TaskView, stage_word};
pub use worker::WorkerView;
