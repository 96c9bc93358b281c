//! Who tells people, as the rest of the program knows it: a channel can be tried out, and where it
//! leads can be asked for. What it does is in `notices`, which only a server has.

use std::future::Future;
use std::pin::Pin;

use baton_domain::channel::{Channel, KeptChannel};
use baton_domain::ids::TenantId;

/// How telling somebody went, later.
pub type Telling<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// Who tells people.
pub trait Messenger: Send + Sync {
    /// Tells by a channel that this is only a trial.
    fn try_out<'a>(&'a self, tenant: &'a TenantId, kept: &'a KeptChannel) -> Telling<'a>;

    /// What is wrong with where a channel leads, as far as that can be told without going there.
    fn objects(&self, channel: &Channel) -> Option<(&'static str, String)>;

    /// What signatures of a channel are made and checked with.
    fn secret(&self, tenant: &TenantId, channel: &Channel) -> String;
}
