//! The program as a library: what `baton` runs and what its tests drive.
//!
//! Arrows never turn back: a surface builds orders, the engine submits them, the store decides and
//! commits, the bell wakes who waits. The engine is the only way anything changes.

pub mod adapters;
pub mod aliases;
pub mod answered;
pub mod artifacts;
pub mod bench;
pub mod call;
pub mod chance;
pub mod changes;
pub mod checksum;
pub mod cli;
pub mod client;
pub mod clock;
pub mod clockwork;
pub mod contract;
pub mod dashboard;
pub mod declaration;
pub mod demo;
pub mod engine;
pub mod files;
pub mod handing;
pub mod health;
pub mod home;
pub mod identity;
pub mod init;
pub mod json;
pub mod log;
pub mod mcp;
pub mod messenger;
pub mod metrics;
pub mod notices;
pub mod operation;
pub mod operations;
pub mod pieces;
pub mod points;
pub mod problem;
pub mod protocol;
pub mod receipts;
pub mod redaction;
pub mod relay;
pub mod scripted;
pub mod server;
pub mod shape;
pub mod shim;
pub mod surface;
pub mod surroundings;
pub mod telling;
pub mod tokens;
pub mod views;
pub mod waiters;
pub mod websocket;
pub mod worker;
pub mod worktree;
