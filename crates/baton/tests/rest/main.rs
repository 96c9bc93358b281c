//! The server as its callers see it: real sockets, bytes in, bytes out.

mod answers;
mod bounds;
mod caller;
mod closing;
mod doors;
mod ending;
mod operator;
mod strangers;
mod streams;
mod unix;
mod world;
