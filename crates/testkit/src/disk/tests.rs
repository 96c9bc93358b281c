//! The disk is tried with a small workload before anything else is tried with the disk.

mod failing;
mod model;
mod power;
mod sharing;
mod workload;
