//! People are told: by a real server, to a real receiver, checked by an implementation of its own.

mod home;
mod receiver;
mod told;
