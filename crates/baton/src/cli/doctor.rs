//! `baton doctor`: looks at everything that can be wrong here, and names a command for each thing
//! that is. Looking changes nothing.

use std::path::PathBuf;

use baton_domain::time::Timestamp;
use baton_store::Clock as _;
use baton_store::clock::SystemClock;
use clap::ArgMatches;
use serde_json::{Map, Value, json};

use crate::client::Failure;
use crate::operations;

use super::{Output, Session, render, upkeep};

mod facts;
mod judge;

use facts::{Facts, Server};
use judge::{Finding, Level, judge};

/// Looks, and says what it found; exits 1 if anything is wrong.
pub(super) async fn run(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let folder: PathBuf = upkeep::folder(session, asked)?;
    let now = SystemClock::starting_at(Timestamp(0)).now();
    let mut facts = Facts::gather(&folder, session.around, now);
    match session.globals.address(session.around) {
        Ok(address) => {
            facts.plain_beyond = !address.is_local();
            facts.place = address.to_string();
            facts.server = ask(session).await;
        }
        Err(failure) => facts.server = Server::Silent(detail(&failure)),
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

async fn ask(session: &Session<'_>) -> Server {
    let Some(entry) = operations::find("health", "show") else { return Server::Green };
    match session.ask(entry, Map::new()).await {
        Ok(body) if body["green"] == true => Server::Green,
        Ok(body) => {
            let troubles = body["troubles"].as_array().map_or(&[][..], Vec::as_slice);
            Server::Troubled(troubles.iter().map(trouble).collect())
        }
        Err(failure) if failure.code() == "unreachable" => Server::Silent(detail(&failure)),
        Err(failure) => Server::Refused(detail(&failure)),
    }
}

fn trouble(value: &Value) -> String {
    let known = ["sentence", "what", "reason"].iter().find_map(|name| value[*name].as_str());
    let said = value.as_str().or(known);
    said.map_or_else(|| value.to_string(), str::to_owned)
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
