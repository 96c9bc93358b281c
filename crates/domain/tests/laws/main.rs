//! The rules as a table to review, as laws over random histories, and as the edge cases that
//! taught them.

mod bounds;
mod cast;
mod deadlines;
mod edges;
mod finishing;
mod flows;
mod history;
mod keys;
mod lanes;
mod laws;
mod looping;
mod names;
mod reach;
mod rules;
mod shape;
mod speech;
mod table;
mod world;
