//! The shim: the small process that owns one agent. It is parent of the agent's tree, in a session of its own,
//! and outlives the worker that started it; it keeps what the agent says in a spool, answers at a
//! socket, and kills, proves and records by itself when nobody renews its fence.
//!
//! `start` is the program, `watch` its loop; `birth` and `inside` are the two sides of an agent's start,
//! `tree` how its processes are ended and known to have. [`launch`] and [`adopt`] are for the worker.

pub use client::{Change, Found, Handle, adopt, launch, overpower, prove};
pub use control::{Answer, Nudge, Request};
pub use place::Place;
pub use probe::examine;
pub use spec::{Limits, Spec, Want, Wanted};
pub use start::run;
pub use told::{Cause, Exit, Isolation, Launch, Note, Process, Proof, Status};

mod apart;
mod birth;
mod bytes;
mod cgroup;
mod client;
mod control;
mod doors;
pub mod fence;
mod inside;
mod kernel;
mod place;
mod probe;
mod processes;
pub mod spec;
pub mod spool;
mod start;
mod told;
mod tree;
mod voice;
mod watch;
