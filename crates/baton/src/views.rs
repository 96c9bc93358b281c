//! What callers see: rows of the store in the words of the glossary, with everything derived that
//! people ask for first.

mod run;
mod task;

pub use run::{BlockView, LeaseView, RunView};
pub use task::{ContractLine, TaskView};
