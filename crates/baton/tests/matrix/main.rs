//! What must hold for every operation, asked of every row of the table: equal answers on every
//! surface, refusals that leave no trace, nothing for whoever may not, nothing of other tenants.

mod attacks;
mod canaries;
mod described;
mod desk;
mod dump;
mod edges;
mod equal;
mod examples;
mod foreign;
mod ground;
mod hinted;
mod permits;
mod picked;
mod poison;
mod program;
mod races;
mod raw;
mod references;
mod refused;
mod repeated;
mod scene;
mod stolen;
mod surfaces;
mod tampering;
mod theirs;
mod typed;
mod wrong;
mod wrongness;

#[path = "../support/caller.rs"]
mod caller;
#[path = "../support/serving.rs"]
mod serving;
#[path = "../support/world.rs"]
mod world;
