//! The rules as a table to review, as laws over random histories, and as the edge cases that
//! taught them.

mod bounds;
mod cast;
mod deadlines;
mod edges;
mod editing;
mod explaining;
mod fences;
mod finishing;
mod flows;
mod history;
mod keys;
mod landing;
mod lanes;
mod laws;
mod limits;
mod looping;
mod names;
mod pacing;
mod parking;
mod patterns;
mod reach;
mod records;
mod rules;
mod shape;
mod speech;
mod spending;
mod table;
mod trails;
mod world;
