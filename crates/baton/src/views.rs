//! What callers see: rows of the store in the words of the glossary, with everything derived that
//! people ask for first.

mod attempt;
mod handoff;
mod run;
mod task;

pub use attempt::{AttemptView, CheckpointView, ReceiptView};
pub use handoff::{HandoffItem, HandoffSection, HandoffView, Room};
pub use run::{AnswerView, BlockView, LeaseView, QuestionView, RunView};
pub use task::{ContractLine, TaskView};
