//! The rules as a table to review, as laws over random histories, and as the edge cases that
//! taught them.

mod bounds;
mod cast;
mod table;
mod world;
