//! Postgres for whoever looks after it: how it is reached, who may see what, copies and their way
//! back.

#[expect(dead_code, reason = "the tests of SQLite have a larger cast")]
#[path = "../sqlite/cast.rs"]
mod cast;
mod examining;
mod lending;
mod readers;
mod restoring;
mod schema;
mod site;
mod tls;
