//! Server, worker, shim and agent as the processes that they are, from a task to its end.

mod answers;
mod background;
mod explained;
mod fenced;
mod handoff;
mod house;
mod killed;
mod landing;
mod limits;
mod looked_at;
mod machines;
mod points;
#[path = "../support/processes.rs"]
mod processes;
mod proof;
mod proxy;
mod setup;
mod ward;
mod whole;
