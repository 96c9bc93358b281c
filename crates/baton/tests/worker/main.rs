//! Server, worker, shim and agent as the processes that they are, from a task to its end.

mod answers;
mod background;
mod house;
mod killed;
mod points;
#[path = "../support/processes.rs"]
mod processes;
mod ward;
mod whole;
