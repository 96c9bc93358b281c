//! The worker's side: what runs agents on this machine and tells a server what becomes of them.

pub mod course;
pub mod link;
pub mod outbox;
