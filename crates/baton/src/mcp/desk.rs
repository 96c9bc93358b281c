//! By which way an operation is asked for: in the server itself, or at a server by its client.

use std::future::pending;
use std::sync::{Arc, RwLock};

use baton_domain::key::Kind;
use baton_domain::text::Text;
use rmcp::RoleServer;
use rmcp::model::RequestStateCodec;
use rmcp::service::RequestContext;
use serde_json::{Map, Value};

use crate::call::{self, Call, Envelope, Patience};
use crate::chance::Chance;
use crate::client::{Asked, Client, Failure};
use crate::handing;
use crate::identity::{Caller, Denied, Identity};
use crate::operation::{Audience, Declaration, Entry};
use crate::problem::Problem;
use crate::shape::Violation;
use crate::tokens::Pass;

use super::question::Seal;

/// Where a client may say under which key a call may be repeated.
const REQUEST_KEY: &str = "baton/idempotency-key";
/// Characters of such a key, as REST has them.
const REQUEST_KEY_MAX: usize = 255;

/// By which way operations are asked for.
#[derive(Clone)]
pub enum Desk {
    /// In the server itself, for whoever showed a key with the request.
    Inside(Arc<Inside>),
    /// At a server, for the one program at the other end of stdio.
    Outside(Arc<Outside>),
}

/// What the server lends.
pub struct Inside {
    identity: Arc<Identity>,
    patience: Patience,
    chance: Arc<dyn Chance>,
    codec: RequestStateCodec,
}

/// A client whose key may be exchanged while it is used.
pub struct Outside {
    client: RwLock<Arc<Client>>,
}

/// Whoever was let in by the server; it travels beside the request.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Who.
    pub caller: Caller,
    /// The attempt that it is, if it showed a claim token.
    pub pass: Option<Pass>,
}

/// Why an operation was not carried out, as RFC 9457 writes it.
#[derive(Clone, Debug)]
pub struct Refused(pub Value);

impl Refused {
    /// The stable word.
    #[must_use]
    pub fn code(&self) -> &str {
        self.0["code"].as_str().unwrap_or("internal")
    }

    /// The sentence.
    #[must_use]
    pub fn detail(&self) -> String {
        self.0["detail"].as_str().unwrap_or("something broke").to_owned()
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self(problem.body())
    }
}

impl Desk {
    /// Asks for an operation, under the key that the request brings or a new one.
    pub async fn ask(
        &self,
        entry: &'static Entry,
        arguments: Map<String, Value>,
        if_match: Option<u64>,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, Refused> {
        let key = match context.meta.get(REQUEST_KEY) {
            None => None,
            Some(given) => Some(request_key(given)?),
        };
        match self {
            Self::Inside(inside) => {
                let Guest { caller, pass } = guest(context)?;
                let trace = context.meta.get_traceparent().and_then(call::trace_id);
                let request_key = Some(key.unwrap_or_else(|| inside.mint()));
                let envelope = Envelope { request_key, if_match, trace, pass };
                inside.perform(entry, arguments, caller, envelope).await
            }
            Self::Outside(outside) => outside.ask(entry, arguments, key, if_match).await,
        }
    }

    /// Whether the caller could say this at all.
    pub fn admits(&self, entry: &Entry, context: &RequestContext<RoleServer>) -> bool {
        match self {
            Self::Inside(_) => guest(context).is_ok_and(|guest| may_say(&guest, &entry.about)),
            // Whoever comes this way is an agent.
            Self::Outside(_) => entry.about.audience != Audience::Person,
        }
    }

    /// What seals the state that a client carries back, bound to this; outside a server nobody can
    /// answer anyway.
    #[must_use]
    pub fn seal(&self, bound: Vec<u8>) -> Option<Seal<'_>> {
        match self {
            Self::Inside(inside) => {
                let now = inside.identity.engine().now();
                Some(Seal { codec: &inside.codec, bound, now })
            }
            Self::Outside(_) => None,
        }
    }

    /// Who calls, if the server knows.
    #[must_use]
    pub fn caller(&self, context: &RequestContext<RoleServer>) -> Option<Caller> {
        match self {
            Self::Inside(_) => guest(context).ok().map(|guest| guest.caller),
            Self::Outside(_) => None,
        }
    }

    /// Whether a claim token says which run is the caller's own.
    #[must_use]
    pub fn has_token(&self, context: &RequestContext<RoleServer>) -> bool {
        match self {
            Self::Inside(_) => guest(context).is_ok_and(|guest| guest.pass.is_some()),
            Self::Outside(outside) => outside.client().claim_token.is_some(),
        }
    }
}

fn may_say(guest: &Guest, about: &Declaration) -> bool {
    let person = match guest.caller.kind {
        Kind::Person | Kind::Bot | Kind::System => guest.pass.is_none(),
        Kind::Agent | Kind::Worker => false,
    };
    let allowed = about.scope().is_none_or(|scope| guest.caller.may(&scope));
    allowed && (person || about.audience != Audience::Person)
}

/// The door puts the caller beside every request; one without is not served.
fn guest(context: &RequestContext<RoleServer>) -> Result<Guest, Refused> {
    let parts = context.extensions.get::<hyper::http::request::Parts>();
    let guest = parts.and_then(|parts| parts.extensions.get::<Guest>());
    guest.cloned().ok_or_else(|| {
        Problem::new("unauthenticated", "send `Authorization: Bearer` with a key").into()
    })
}

fn request_key(given: &Value) -> Result<Text<REQUEST_KEY_MAX>, Refused> {
    let text = given.as_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()));
    let key = text.and_then(|text| Text::new("key", text).ok());
    key.ok_or_else(|| {
        let rule = format!("must have 1 to {REQUEST_KEY_MAX} visible characters");
        Problem::invalid(vec![Violation { field: format!("_meta.{REQUEST_KEY}"), rule }]).into()
    })
}

impl Inside {
    /// Seals states by a key that only servers of this store have.
    #[must_use]
    pub fn new(identity: Arc<Identity>, patience: Patience, chance: Arc<dyn Chance>) -> Self {
        let key = identity.engine().keyring().derive(b"mcp-request-state");
        let codec = RequestStateCodec::try_new(key).expect("the key is long enough");
        Self { identity, patience, chance, codec }
    }

    async fn perform(
        &self,
        entry: &'static Entry,
        arguments: Map<String, Value>,
        caller: Caller,
        envelope: Envelope,
    ) -> Result<Value, Refused> {
        let arguments = Value::Object(arguments);
        let origin = Text::new("origin", "mcp").expect("a plain word is a text");
        let watch = self.identity.watch(&caller);
        let over = async {
            watch.await;
            Problem::new("unauthenticated", Denied::Unauthenticated.to_string())
        };
        let asked = (&entry.about, &arguments);
        let call = Call::new(Arc::clone(&self.identity), caller, envelope, origin, asked);
        let answer = entry.perform(arguments, Arc::new(call));
        let reply = self.patience.within(entry.patience(), (over, pending()), answer).await?;
        // What is shown once stays in the reply: a model must not see it.
        Ok(reply.body)
    }

    fn mint(&self) -> Text<REQUEST_KEY_MAX> {
        let mut bytes = [0; 16];
        self.chance.fill(&mut bytes);
        let key = format!("mcp-{:032x}", u128::from_be_bytes(bytes));
        Text::new("key", &key).expect("digits are a text")
    }
}

impl Outside {
    /// Somebody who asks with this client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client: RwLock::new(Arc::new(client)) }
    }

    /// From now on with this one.
    pub fn replace(&self, client: Client) {
        let mut own = self.client.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        *own = Arc::new(client);
    }

    /// The client that asks now.
    #[must_use]
    pub fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Asks until the outcome is known, and forgets what a model must not see.
    pub async fn ask(
        &self,
        entry: &'static Entry,
        arguments: Map<String, Value>,
        key: Option<Text<REQUEST_KEY_MAX>>,
        if_match: Option<u64>,
    ) -> Result<Value, Refused> {
        let client = self.client();
        let refused = |failure: Failure| Refused(failure.body);
        let open = handing::is_open(&entry.about, &arguments).then(|| arguments.clone());
        let mut asked = Asked::new(&entry.about, arguments).map_err(refused)?;
        asked.if_match = if_match;
        if entry.about.changes() {
            let given = key.map(|key| key.as_str().to_owned());
            asked.request_key = Some(given.unwrap_or_else(|| client.mint_key()));
        }
        let mut body = match (client.ask(&asked).await, open, std::env::current_dir()) {
            // The files that it misses may be here.
            (Err(failure), Some(mut arguments), Ok(here)) if failure.code() == "incomplete" => {
                let artifacts = handing::hand_in(&client, failure, here).await.map_err(refused)?;
                arguments.insert("artifacts".to_owned(), artifacts);
                let again = Asked::new(&entry.about, arguments).map_err(refused)?;
                asked.body = again.body;
                client.ask(&asked).await.map_err(refused)?
            }
            (answer, ..) => answer.map_err(refused)?,
        };
        if let Some(body) = body.as_object_mut() {
            let told = |name: &String| entry.answer.field(name).is_some();
            body.retain(|name, _| told(name) || name == "as_of" || name == "at");
        }
        Ok(body)
    }
}
