//! The model: everything in memory.
