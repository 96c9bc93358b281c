use std::io;
use std::sync::{Arc, Mutex};

use baton_domain::command::{Agent, Report};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;

use super::world::{World, text};
use crate::engine::Tokens;

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

#[tokio::test]
async fn spans_name_tenant_aim_task_and_outcome_but_no_text_and_no_secret() {
    let paper = Paper::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_span_events(FmtSpan::FULL)
        .with_writer(paper.clone())
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let world = World::new().await;
    world.create("a telling title").await;
    let claimed = world.claim("bob").await.expect("there is one");
    let report = Report { summary: Some(text("a telling summary")), ..Report::default() };
    world.say(&claimed, Agent::Progress(report)).await.expect("it holds the run");
    world.claim("eve").await.expect_err("there is no other");
    world.engine.sweep(10).await.expect("time passes");
    let written = paper.0.lock().expect("nobody panics").clone();
    let written = String::from_utf8(written).expect("it is text");
    let Tokens::Solo(token) = &claimed.tokens else { panic!("a solo claim has one token") };
    for secret in ["telling", "batonc_", "nonce", &token.reveal()[7..20]] {
        assert!(!written.contains(secret), "{secret} is in\n{written}");
    }
    for told in [
        r#"submit{tenant=local aim="birth" outcome="ok" task=T-1}"#,
        r#"submit{tenant=local aim="next" outcome="nothing_claimable"}"#,
        r#"submit{tenant=local aim="sweep" outcome="ok"}"#,
        "claim{tenant=local holder=bob",
    ] {
        assert!(written.contains(told), "{told} is not in\n{written}");
    }
}
