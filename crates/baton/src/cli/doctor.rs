//! `baton doctor`: looks at everything that can be wrong here, and names a command for each thing
//! that is. Looking changes nothing.

use std::path::PathBuf;

use baton_domain::time::Timestamp;
use baton_store::Clock as _;
use baton_store::clock::SystemClock;
use clap::ArgMatches;
use serde_json::{Map, Value, json};
use tokio::net::UnixStream;

use crate::client::{Address, Failure};
use crate::operations;
use crate::shape::When;

use super::{Output, Session, render, status, upkeep};

mod elsewhere;
mod facts;
mod isolation;
mod judge;

use facts::{Facts, Server, Told, Trouble};
use judge::{Finding, Level, judge};

/// Looks, and says what it found; exits 1 if anything is wrong.
pub(super) async fn run(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let folder: PathBuf = upkeep::folder(session, asked)?;
    let now = SystemClock::starting_at(Timestamp(0)).now();
    let mut facts = Facts::gather(&folder, session.around, now);
    if let Some(named) = session.around.database() {
        elsewhere::look(&mut facts, &folder, &named).await;
    }
    match session.globals.address(session.around) {
        Ok(address) => {
            facts.plain_beyond = address.is_exposed();
            facts.place = address.to_string();
            facts.host = host(&address);
            facts.told.pid = pid(&address).await;
            facts.server = ask(session, &mut facts.told).await;
        }
        Err(failure) => facts.server = Server::Nowhere(detail(&failure)),
    }
    let findings = judge(&facts);
    let wrong = findings.iter().any(|finding| finding.level == Level::Wrong);
    let body = json!({
        "ok": !wrong,
        "findings": findings.iter().map(Finding::body).collect::<Vec<_>>(),
    });
    if !session.globals.quiet {
        let text = match session.globals.output {
            Output::Text => told(&findings),
            Output::Json => render::json(&body),
            Output::JsonLines => findings.iter().map(|one| render::json(&one.body())).collect(),
        };
        session.say(&text);
    }
    Ok(u8::from(wrong))
}

fn detail(failure: &Failure) -> String {
    failure.body["detail"].as_str().unwrap_or_default().to_owned()
}

/// The host of a server on another machine.
fn host(address: &Address) -> Option<String> {
    match address {
        Address::Tcp { host, .. } if !address.is_local() => Some(host.clone()),
        Address::Tcp { .. } | Address::Socket(_) => None,
    }
}

/// Which process listens at a socket.
async fn pid(address: &Address) -> Option<i32> {
    let Address::Socket(path) = address else { return None };
    UnixStream::connect(path).await.ok()?.peer_cred().ok()?.pid()
}

async fn ask(session: &Session<'_>, told: &mut Told) -> Server {
    let Some(entry) = operations::find("health", "show") else { return Server::Green };
    let body = match session.ask(entry, Map::new()).await {
        Ok(body) => body,
        Err(failure) if failure.code() == "unreachable" => return Server::Silent(detail(&failure)),
        Err(failure) => {
            let next = failure.body["next"][0].as_str().map(str::to_owned);
            return Server::Refused { why: detail(&failure), next };
        }
    };
    told.version = body["version"].as_str().map(str::to_owned);
    told.now = body["at"].as_str().and_then(|at| at.parse::<When>().ok()).map(|at| at.0);
    told.broken_channels = broken_channels(session).await;
    told.stop_unverified = body["stop_unverified"].as_u64().unwrap_or(0);
    if let Some(entry) = operations::find("stats", "show")
        && let Ok(stats) = session.ask(entry, Map::new()).await
    {
        let words = status::exhausted(&stats["exhausted"]);
        told.exhausted = Some(words.trim_end().to_owned()).filter(|words| !words.is_empty());
    }
    if body["green"] == true {
        return Server::Green;
    }
    let troubles = body["troubles"].as_array().map_or(&[][..], Vec::as_slice);
    Server::Troubled(troubles.iter().map(trouble).collect())
}

/// By which channels nobody is told; an older server has none.
async fn broken_channels(session: &Session<'_>) -> Vec<(String, String)> {
    let Some(entry) = operations::find("channel", "list") else { return vec![] };
    let Ok(body) = session.ask(entry, Map::new()).await else { return vec![] };
    let text = |value: &Value, name: &str| value[name].as_str().map(str::to_owned);
    let one = |value: &Value| Some((text(value, "name")?, text(value, "broken")?));
    body["items"].as_array().into_iter().flatten().filter_map(one).collect()
}

fn trouble(value: &Value) -> Trouble {
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    Trouble { detail: text("detail"), next: text("next") }
}

fn told(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let what = render::clean::line(&finding.what);
        text.push_str(&format!("{:<6} {:<12} {what}\n", finding.level.word(), finding.about));
        if let Some(fix) = &finding.fix {
            text.push_str(&format!("{:<19} fix: {}\n", "", render::clean::line(fix)));
        }
    }
    text
}

#[cfg(test)]
mod tests;
