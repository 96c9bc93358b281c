//! What the engine writes into its log. Alone in its binary: `tracing` remembers for the whole
//! process whether anybody listens, and asks the thread that comes by first, so beside other tests
//! a listener of one thread may hear nothing.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use baton::call::{Call, Envelope};
use baton::chance::SeededChance;
use baton::clock::StoppedWatch;
use baton::engine::{Engine, Parts};
use baton::identity::Identity;
use baton::operation::Reply;
use baton::operations;
use baton::problem::Problem;
use baton::tokens::Secrets;
use baton::waiters::Waiters;
use baton_domain::text::Text;
use baton_domain::time::Timestamp;
use baton_store::clock::ManualClock;
use baton_store::memory::MemoryStore;
use serde_json::{Value, json};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;

/// No two requests share a key.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// Keeps all that is logged.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl io::Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Paper {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Somebody who asks, on the model.
fn identity() -> Arc<Identity> {
    let (waiters, clock) =
        (Waiters::new(), Arc::new(ManualClock::at(Timestamp(1_700_000_000_000))));
    let store = MemoryStore::new(baton_domain::decide, clock.clone(), waiters.bell());
    let engine = Engine::new(Parts {
        store: Arc::new(store),
        waiters,
        clock,
        stopwatch: Arc::new(StoppedWatch),
        chance: Arc::new(SeededChance::new(1)),
        secrets: Secrets::new([7; 32]),
        incarnation: 1,
    });
    let chance = Arc::new(SeededChance::new(2));
    Arc::new(Identity::new(Arc::new(engine), chance, operations::scopes()))
}

async fn ask(
    identity: &Arc<Identity>,
    what: (&str, &str),
    arguments: Value,
    token: Option<&str>,
) -> Result<Reply, Problem> {
    let entry = operations::find(what.0, what.1).expect("it is in the table");
    let caller = identity.local_owner();
    let keyring = identity.engine().keyring();
    let pass = token.map(|token| keyring.verify(token, &caller.tenant).expect("it is good"));
    let number = REQUESTS.fetch_add(1, Ordering::Relaxed);
    let request_key = Some(Text::new("key", format!("request-{number}")).expect("a text"));
    let envelope = Envelope { request_key, pass, ..Envelope::default() };
    let origin = Text::new("origin", "test").expect("a text");
    let call =
        Call::new(Arc::clone(identity), caller, envelope, origin, (&entry.about, &arguments));
    entry.perform(arguments, Arc::new(call)).await
}

#[tokio::test]
async fn spans_name_tenant_aim_task_and_outcome_but_no_text_and_no_secret() {
    let paper = Paper::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_span_events(FmtSpan::FULL)
        .with_writer(paper.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).expect("there is no other");
    let identity = identity();
    let done = "it is granted";
    ask(&identity, ("project", "add"), json!({ "project": "shop" }), None).await.expect(done);
    let task = json!({ "project": "shop", "title": "a telling title", "stage": "coding" });
    ask(&identity, ("task", "create"), task, None).await.expect(done);
    let claimed = ask(&identity, ("run", "claim"), json!({}), None).await.expect(done);
    let token = claimed.secrets.iter().find(|(name, _)| *name == "claim_token");
    let token = token.expect("it is shown once").1.clone();
    let note = json!({ "run": "mine", "summary": "a telling summary" });
    ask(&identity, ("run", "progress"), note, Some(&token)).await.expect(done);
    ask(&identity, ("run", "claim"), json!({}), None).await.expect_err("there is no other");
    identity.engine().sweep(10).await.expect("time passes");
    let written = paper.0.lock().expect("nobody panics").clone();
    let written = String::from_utf8(written).expect("it is text");
    for secret in ["telling", "batonc_", "nonce", &token[7..20]] {
        assert!(!written.contains(secret), "{secret} is in\n{written}");
    }
    for told in [
        r#"submit{tenant=local aim="birth" outcome="ok" task=T-1}"#,
        r#"submit{tenant=local aim="next" outcome="nothing_claimable"}"#,
        r#"submit{tenant=local aim="sweep" outcome="ok"}"#,
        "claim{tenant=local holder=owner",
    ] {
        assert!(written.contains(told), "{told} is not in\n{written}");
    }
}
