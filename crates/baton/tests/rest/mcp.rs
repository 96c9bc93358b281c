//! The agents' protocol as programs speak it: real sockets, real processes.
//!
//! The official suite and the official clients are asked by `./check`; here is what they do not
//! know of: whose session it is, who may answer, what a state is good for.

mod attacks;
mod program;
mod speaking;
mod waiting;
