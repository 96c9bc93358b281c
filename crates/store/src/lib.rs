//! Placeholder.

pub mod blobs;
