//! The rules as a table to review, as laws over random histories, and as the edge cases that
//! taught them.

mod bounds;
mod cast;
mod finishing;
mod history;
mod laws;
mod looping;
mod reach;
mod shape;
mod speech;
mod table;
mod world;
