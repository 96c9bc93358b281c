//! Agents under real shims: how they are stopped, proved dead, adopted and kept apart.

mod adoption;
mod edges;
mod exposure;
mod fences;
mod mute;
mod stage;
mod talk;
mod zoo;
