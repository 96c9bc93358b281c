//! `baton mcp`: one agent program at the other end of stdio. Nothing but the protocol goes to
//! stdout; everything that people should read goes to stderr.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::stdio_pipes;
use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use crate::client::{Asked, Client, Failure, Origin};
use crate::operation::Entry;
use crate::operations;
use crate::problem::Problem;
use crate::surroundings::Hidden;

use super::desk::{Desk, Outside};
use super::mine::{Held, Mine};
use super::{Handler, Toolset};

/// How long a minted key lives: should this process be killed, it is of use to nobody for longer.
const KEY_LIFETIME: &str = "1d";
/// When the next key is minted: long before the last one ends.
const KEY_RENEWED_AFTER: Duration = Duration::from_secs(16 * 60 * 60);
/// How long to wait before a key that could not be minted is tried again.
const KEY_AGAIN: Duration = Duration::from_secs(10 * 60);
/// Bytes of one message: as many as REST reads, and room for what the protocol adds.
const LINE_BYTES_MAX: usize = (1 << 20) + (64 << 10);
/// The shortest pause between two renewals, whatever lease was asked for.
const RENEW_MIN: Duration = Duration::from_secs(1);
/// What all last words together may take; a client that closes stdin soon kills.
const LAST_WORDS_MAX: Duration = Duration::from_secs(5);

/// Serves until stdin ends or somebody asks it to stop.
pub async fn run(client: Client, toolset: Toolset) -> Result<u8, Failure> {
    let client = Client { origin: Origin::Mcp, ..client };
    let agent = Agent::begin(client).await?;
    let mine = Arc::<Mine>::default();
    let desk = Desk::Outside(Arc::clone(&agent.desk));
    let handler = Handler::new(desk, toolset, Arc::clone(&mine));
    let (read, write) = stdio_pipes();
    let transport =
        AsyncRwTransport::<RoleServer, _, _>::new(read, write).with_max_line_length(LINE_BYTES_MAX);
    let served = async {
        match rmcp::serve_server(handler, transport).await {
            Ok(service) => service.waiting().await.map(drop).map_err(|error| error.to_string()),
            // Whoever only looked whether we are there said nothing at all.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    };
    let served = tokio::select! {
        served = served => served,
        () = told_to_stop() => Ok(()),
        () = renew_leases(&agent.desk, &mine) => Ok(()),
        () = agent.renew_key() => Ok(()),
    };
    let held = mine.all();
    if tokio::time::timeout(LAST_WORDS_MAX, agent.end(&held)).await.is_err() {
        eprintln!("baton mcp: the server was not told that this agent ended; its lease will end");
    }
    served.map(|()| 0).map_err(|why| {
        let detail = format!("the client does not speak MCP: {why}");
        Problem::new("malformed", detail).into()
    })
}

async fn told_to_stop() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Renews every lease that was claimed over this connection, as long as it lasts.
async fn renew_leases(desk: &Outside, mine: &Mine) {
    loop {
        let soonest = mine.all().iter().map(|held| held.renew_every).min();
        tokio::select! {
            () = mine.changed() => continue,
            () = async {
                match soonest {
                    Some(pause) => sleep(pause.max(RENEW_MIN)).await,
                    None => pending().await,
                }
            } => {}
        }
        for held in mine.all() {
            let renewed = desk.ask(row("run", "heartbeat"), proof(&held), None, None).await;
            if let Err(refused) = renewed {
                tracing::warn!(run = %held.run, why = %refused.detail(), "a lease was not renewed");
                if refused.code() == "lease_lost" {
                    mine.forget(held.attempt);
                }
            }
        }
    }
}

fn row(noun: &str, verb: &str) -> &'static Entry {
    operations::find(noun, verb).expect("it is in the table")
}

fn proof(held: &Held) -> Map<String, Value> {
    object(json!({ "run": held.run.to_string(), "attempt": held.attempt.to_string() }))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}

/// Who this process is.
struct Agent {
    /// By whose right keys are minted; none if the process calls as it was told to.
    parent: Option<Client>,
    principal: String,
    desk: Arc<Outside>,
}

impl Agent {
    /// Becomes an agent of its own, if it may. Inside a supervised attempt it is that attempt's.
    async fn begin(client: Client) -> Result<Self, Failure> {
        let mut bytes = [0; 6];
        client.chance.fill(&mut bytes);
        let principal: String =
            bytes.iter().fold("mcp-".to_owned(), |name, byte| format!("{name}{byte:02x}"));
        if client.claim_token.is_some() {
            let desk = Arc::new(Outside::new(client));
            return Ok(Self { parent: None, principal, desk });
        }
        match mint(&client, &principal).await {
            Ok(own) => {
                let desk = Arc::new(Outside::new(own));
                Ok(Self { parent: Some(client), principal, desk })
            }
            Err(failure)
                if ["forbidden", "beyond_key", "not_for_you"].contains(&failure.code()) =>
            {
                eprintln!("baton mcp: the key may make no keys, so this agent calls with it");
                let desk = Arc::new(Outside::new(client));
                Ok(Self { parent: None, principal, desk })
            }
            Err(failure) => Err(failure),
        }
    }

    /// Mints the next key before the last one ends.
    async fn renew_key(&self) {
        let Some(parent) = &self.parent else { return pending().await };
        let mut pause = KEY_RENEWED_AFTER;
        loop {
            sleep(pause).await;
            match mint(parent, &self.principal).await {
                Ok(next) => {
                    let last = self.desk.client();
                    self.desk.replace(next);
                    revoke(&last).await;
                    pause = KEY_RENEWED_AFTER;
                }
                Err(failure) => {
                    tracing::warn!(why = %failure.body["detail"], "no new key was minted");
                    pause = KEY_AGAIN;
                }
            }
        }
    }

    /// What it holds ends without a result, and its key with it.
    async fn end(&self, held: &[Held]) {
        for held in held {
            let ended = self.desk.ask(row("run", "exit"), proof(held), None, None).await;
            if let Err(refused) = ended {
                tracing::warn!(run = %held.run, why = %refused.detail(), "a run was not ended");
            }
        }
        if self.parent.is_some() {
            revoke(&self.desk.client()).await;
        }
    }
}

/// A client with a key of its own, for this principal.
async fn mint(parent: &Client, principal: &str) -> Result<Client, Failure> {
    let mut bytes = [0; 4];
    parent.chance.fill(&mut bytes);
    let name = format!("{principal}-{:08x}", u32::from_be_bytes(bytes));
    let wish = json!({
        "name": name, "principal": principal, "kind": "agent", "scopes": ["agent"],
        "lifetime": KEY_LIFETIME,
    });
    let made = ask(parent, row("key", "create"), wish).await?;
    let key = made["key"].as_str().map(Hidden::new);
    if key.is_none() {
        // The answer to the first try was lost, and a secret is told once.
        return Err(Problem::new("unknown", "a key was made, but not told: try again").into());
    }
    let (address, trust) = (parent.address.clone(), parent.trust.clone());
    let (origin, chance) = (parent.origin, Arc::clone(&parent.chance));
    Ok(Client { address, trust, key, claim_token: None, origin, chance })
}

async fn revoke(client: &Client) {
    let why = json!({ "reason": "its agent has ended" });
    if let Err(failure) = ask(client, row("key", "revoke-self"), why).await {
        tracing::warn!(why = %failure.body["detail"], "the key of this agent was not revoked");
    }
}

async fn ask(client: &Client, entry: &Entry, arguments: Value) -> Result<Value, Failure> {
    let mut asked = Asked::new(&entry.about, object(arguments))?;
    asked.request_key = Some(client.mint_key());
    client.ask(&asked).await
}
