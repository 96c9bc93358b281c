//! A server that is killed between a frame and its acknowledgement.

use std::fs;
use std::process::Command;

use baton::protocol::{Down, Phase};
use serde_json::{Value, json};

use super::{Scripted, alive, hello, seen, stopped};
use crate::caller::{Ask, Caller};
use crate::serving::{Serving, folder, ready, start};

/// Rounds of one test: each kills a server.
const KILLS: u64 = 6;

async fn asked(serving: &Serving, ask: Ask) -> Value {
    let key = fs::read_to_string(serving.text("key_file")).expect("it is written");
    let host = serving.text("url").replace("http://", "");
    let socket = tokio::net::TcpStream::connect(&host).await.expect("it listens");
    let ask = ask.with("host", &host).with("authorization", &format!("Bearer {}", key.trim()));
    Caller::new(socket).ask(&ask).await.json()
}

fn again(data: &std::path::Path) -> Serving {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command.arg("serve").arg("--json").arg("--data").arg(data);
    command.args(["--listen", "127.0.0.1:0", "--key-rate", "0"]);
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    ready(command)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_between_a_frame_and_its_ack_loses_no_report_and_doubles_none() {
    let folder = folder();
    let data = folder.path().join("data");
    let mut serving = start(&data);
    let put = Ask::change("PUT", "/v1/projects/shop", "put", &json!({}));
    asked(&serving, put).await;
    let wish =
        json!({ "name": "wendy", "principal": "wendy", "kind": "worker", "scopes": ["worker"] });
    let made = asked(&serving, Ask::change("POST", "/v1/keys", "key", &wish)).await;
    let key = made["key"].as_str().or_else(|| made["token"].as_str());
    let key = key.unwrap_or_else(|| panic!("{made}")).to_owned();
    let wish = json!({ "project": "shop", "title": "One", "stage": "coding" });
    asked(&serving, Ask::change("POST", "/v1/tasks", "task", &wish)).await;
    let address = |serving: &Serving| serving.text("url").replace("http://", "");
    let (mut worker, _) = Scripted::come(&address(&serving), &key, hello("box", vec![])).await;
    let run = worker.dispatched().await;
    worker.told(seen(run.attempt, 1, Phase::Accepted)).await;
    worker.told(seen(run.attempt, 2, Phase::ProcessStarted)).await;
    worker.told(seen(run.attempt, 3, Phase::PromptWritten)).await;
    let mut acked = 3;
    for round in 0..KILLS {
        let seq = acked + 1;
        let phase = if round % 2 == 0 { Phase::ToolStarted } else { Phase::ToolFinished };
        worker.say(seen(run.attempt, seq, phase)).await;
        serving.child.kill().expect("it takes a signal");
        serving.child.wait().expect("it can be reaped");
        serving = again(&data);
        let mine = vec![alive(&run, seq)];
        let (back, welcome) = Scripted::come(&address(&serving), &key, hello("box", mine)).await;
        worker = back;
        let stands = &welcome.resume[0];
        assert!(stands.fenced.is_none(), "{stands:?}");
        assert!([acked, seq].contains(&stands.applied_seq), "{stands:?}");
        worker.told(seen(run.attempt, seq, phase)).await;
        acked = seq;
    }
    worker.told(stopped(run.attempt, acked + 1)).await;
    let target = format!("/v1/events?task={}&limit=200", run.attempt.task);
    let page = asked(&serving, Ask::get(&target)).await.to_string();
    let count = |word: &str| page.matches(word).count() as u64;
    assert_eq!(count("tool_started"), KILLS.div_ceil(2), "{page}");
    assert_eq!(count("tool_finished"), KILLS / 2, "{page}");
    drop(worker);
    let (mut next, _) = Scripted::come(&address(&serving), &key, hello("box", vec![])).await;
    next.say(baton::protocol::Credit { n: 1, checks: None, merges: None }).await;
    let Some(Down::Dispatch(second)) = next.hear().await else { panic!("the run goes on") };
    assert_eq!((second.run, second.attempt.number), (run.run, 2));
}
