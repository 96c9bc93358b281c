//! The server as its callers see it: real sockets, bytes in, bytes out.

mod answers;
mod bounds;
mod caller;
mod closing;
mod doors;
mod strangers;
mod streams;
mod unix;
mod world;
