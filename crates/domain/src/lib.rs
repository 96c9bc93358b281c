//! What a task is and what may happen to it.
//!
//! Everything here is pure: `decide` looks at a scene and a command and says what happened or why
//! nothing did; `Task::apply` is the only writer of state. No clock, no chance, no I/O.

pub mod apply;
pub mod channel;
pub mod command;
pub mod contract;
pub mod deadline;
pub mod decide;
pub mod event;
pub mod explain;
pub mod history;
pub mod ids;
pub mod key;
pub mod lane;
pub mod limits;
pub mod pace;
pub mod pattern;
pub mod policy;
pub mod pool;
pub mod project;
pub mod reaction;
pub mod refusal;
pub mod run;
pub mod scene;
pub mod scope;
pub mod task;
pub mod text;
pub mod time;
pub mod trail;
pub mod view;

pub use command::Command;
pub use decide::decide;
pub use event::Event;
pub use refusal::Refusal;
pub use scene::{Decision, Scene};
pub use task::{Flow, Task};
