//! What agent programs were seen to do, recorded from the real ones against a scripted model, and
//! what is made of it. A new version of a program is recorded anew; what it means stays the same
//! or shows as a change of text.

mod fixture;
mod laws;
mod limits;
mod narrated;
mod plans;
mod recorded;
