//! The server as its callers see it: real sockets, bytes in, bytes out.

mod answers;
mod blobs;
mod bounds;
mod closing;
mod doors;
mod ending;
mod escapes;
mod halves;
mod holding;
mod mcp;
mod more;
mod notified;
mod often;
mod operator;
mod origins;
mod pages;
mod strangers;
mod streams;
mod tls;
mod unix;
mod worker;

#[path = "../support/caller.rs"]
mod caller;
#[path = "../support/serving.rs"]
mod serving;
#[path = "../support/world.rs"]
mod world;
