//! Workers at the server: a scripted one over a real socket.

use std::collections::BTreeSet;

use baton::identity::KeyWish;
use baton::protocol::{
    Alive, Credit, Dispatch, Down, Hello, Lifecycle, Phase, Stopped, Up, Welcome, read, write,
};
use baton::server::Limits;
use baton::websocket::{Heard, Refused, WebSocket};
use baton_domain::ids::AttemptId;
use baton_domain::key::Kind;
use baton_domain::run::Death;
use baton_domain::text::Text;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::caller::PATIENCE;
use crate::world::{World, how};

mod bombs;
mod coming;
mod doors;
mod killed;
mod linked;
mod once;
mod reporting;
mod tenants;

/// A worker that says exactly what a test wants said.
struct Scripted {
    socket: WebSocket<TcpStream>,
}

fn said<const MAX: usize>(text: &str) -> Text<MAX> {
    Text::new("text", text).expect("a text")
}

fn hello(machine: &str, attempts: Vec<Alive>) -> Hello {
    Hello {
        protocol: 1,
        machine: machine.parse().expect("a name"),
        process: None,
        version: said("test"),
        deployment: None,
        capabilities: Some(BTreeSet::new()),
        slots: 4,
        accounts: Some(vec!["provider/main".parse().expect("a name")]),
        agents: None,
        attempts: Some(attempts),
    }
}

/// A dispatch as a worker names it when it comes back.
fn alive(run: &Dispatch, last_seq: u64) -> Alive {
    Alive { attempt: run.attempt, token: Some(run.token.clone()), last_seq, question: None }
}

fn seen(attempt: AttemptId, seq: u64, phase: Phase) -> Up {
    Lifecycle { attempt, seq, phase, deadline: None, cap: None, at: None }.into()
}

fn stopped(attempt: AttemptId, seq: u64) -> Up {
    Stopped { attempt, seq, death: Death::PidNamespace, survivor: false }.into()
}

impl Scripted {
    async fn knock(address: &str, key: &str) -> Result<Self, Refused> {
        let socket = TcpStream::connect(address).await.expect("it listens");
        let mut headers = HeaderMap::new();
        let bearer = HeaderValue::from_str(&format!("Bearer {key}")).expect("a header");
        headers.insert(AUTHORIZATION, bearer);
        let socket = WebSocket::asking(socket, address, "/v1/worker", headers).await?;
        Ok(Self { socket })
    }

    /// Comes in and is welcome.
    async fn come(address: &str, key: &str, hello: Hello) -> (Self, Welcome) {
        let mut worker = Self::knock(address, key).await.expect("it is let in");
        worker.say(hello).await;
        match worker.hear().await {
            Some(Down::Welcome(welcome)) => (worker, *welcome),
            other => panic!("no welcome: {other:?}"),
        }
    }

    async fn say(&mut self, frame: impl Into<Up>) {
        let text = write(&frame.into()).expect("it is a frame");
        self.say_text(text).await;
    }

    async fn say_text(&mut self, text: String) {
        timeout(PATIENCE, self.socket.say(text)).await.expect("bytes go out").expect("it listens");
    }

    /// The next frame; none once the server has gone.
    async fn hear(&mut self) -> Option<Down> {
        read(&self.hear_text().await?).map(Some).expect("it is a frame")
    }

    async fn hear_text(&mut self) -> Option<String> {
        loop {
            match timeout(PATIENCE, self.socket.hear()).await.expect("something is heard") {
                Heard::Text(text) => return Some(text),
                Heard::Alive => {}
                Heard::Gone => return None,
                Heard::Wrong(why) => panic!("{why}"),
            }
        }
    }

    /// Everything up to the acknowledgement of this frame.
    async fn told(&mut self, frame: Up) -> Vec<Down> {
        let (attempt, seq) = frame.concerns().expect("it concerns an attempt");
        self.say(frame).await;
        let mut before = vec![];
        loop {
            let down = self.hear().await.expect("it is answered");
            if matches!(&down, Down::Ack(ack) if (ack.attempt, ack.seq) == (attempt, seq)) {
                return before;
            }
            before.push(down);
        }
    }

    /// One more run, whatever else is said before.
    async fn dispatched(&mut self) -> Dispatch {
        self.say(Credit { n: 1, checks: None, merges: None }).await;
        loop {
            let down = self.hear().await.expect("it is handed something");
            if let Down::Dispatch(run) = down {
                return *run;
            }
            assert!(matches!(down, Down::Ack(_)), "no run: {down:?}");
        }
    }

    /// The code of the last words before the server goes.
    async fn farewell(&mut self) -> String {
        let mut last = String::new();
        while let Some(down) = self.hear().await {
            if let Down::Trouble(trouble) = down
                && trouble.about.is_none()
            {
                last = trouble.code.as_str().to_owned();
            }
        }
        last
    }
}

impl World {
    async fn worker_key(&self, name: &str) -> String {
        self.make_key(name, Kind::Worker, "worker").await.1
    }

    /// The key of a worker of another tenant.
    async fn foreign_worker(&self) -> String {
        let owner = self.identity.authenticate(&self.foreign_key().await).await;
        let wish = KeyWish {
            name: "zoe".parse().expect("a name"),
            principal: "zoe".parse().expect("a name"),
            kind: Kind::Worker,
            scopes: vec!["worker".to_owned()],
            lifetime: None,
        };
        let made = self.identity.create(&owner.expect("its key is good"), how(), wish).await;
        made.expect("it may make keys").token.expect("it is new").reveal().to_owned()
    }

    fn place(&self) -> String {
        self.address.to_string()
    }

    /// A worker that was handed the run of a fresh task.
    async fn at_work(&self, key: &str) -> (Scripted, Dispatch) {
        let (mut worker, _) = Scripted::come(&self.place(), key, hello("box", vec![])).await;
        let run = worker.dispatched().await;
        worker.told(seen(run.attempt, 1, Phase::Accepted)).await;
        (worker, run)
    }

    async fn shown(&self, what: &str) -> Value {
        self.ask(&self.get(&format!("/v1/{what}"))).await.json()
    }

    /// A word of a person about a run.
    async fn person(&self, target: &str, body: &Value) {
        let answer = self.ask(&self.post(target).json(body)).await;
        assert!(answer.status < 300, "{answer:?}");
    }
}

async fn busy() -> (World, String) {
    let world = World::with(Limits::default()).await;
    world.project().await;
    let key = world.worker_key("wendy").await;
    (world, key)
}

/// The state of the only run of a task, finished ones included.
async fn state(world: &World, task: &str) -> String {
    let page = world.shown(&format!("runs?task={task}")).await;
    let items = page["items"].as_array().unwrap_or_else(|| panic!("{page}"));
    items
        .last()
        .and_then(|run| run["state"].as_str())
        .unwrap_or_else(|| panic!("{page}"))
        .to_owned()
}
