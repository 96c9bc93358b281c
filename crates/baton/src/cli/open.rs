//! `baton open`: the dashboard in a browser, signed in.

use std::process::Stdio;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value, json};

use crate::client::{Asked, Failure};
use crate::operation::Method;

use super::arguments::spelled;
use super::{Output, Session, render};

/// What people type.
pub(super) const NAME: &str = "open";
/// How long one of them may take before it is taken for the browser itself.
const OPENING: Duration = Duration::from_secs(5);
/// Programs that open a URL, whichever there is.
const OPENERS: [&str; 3] = ["xdg-open", "open", "wslview"];

/// The command as the command line knows it.
pub(super) fn command() -> Command {
    Command::new(NAME)
        .about("Open the dashboard in a browser, signed in")
        .after_help(
            "The URL signs one browser in, once, within half a minute. With --print, or where there is no \
             browser, it is only printed.",
        )
        .arg(Arg::new("task").value_name("TASK").help("Show this task first"))
        .arg(
            Arg::new("print")
                .long("print")
                .action(ArgAction::SetTrue)
                .help("Print the URL and open nothing"),
        )
}

/// Asks for a ticket, and shows it to a browser.
pub(super) async fn run(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let client = session.globals.client(session.around)?;
    let ticket = Asked {
        method: Method::Post,
        target: "/v1/tickets".to_owned(),
        body: Some(json!({})),
        if_match: None,
        request_key: None,
    };
    let mut answer = client.ask(&ticket).await?;
    if let Some(task) = asked.get_one::<String>("task") {
        let url = answer["url"].as_str().unwrap_or_default();
        answer["url"] = format!("{url}:{}", spelled("T-", task)).into();
    }
    let url = answer["url"].as_str().unwrap_or_default().to_owned();
    let opened = !asked.get_flag("print") && opened(&url).await;
    let text = match session.globals.output {
        Output::Json | Output::JsonLines => render::json(&with(answer, opened)),
        Output::Text if opened => "opened in your browser\n".to_owned(),
        Output::Text => format!("{url}\n"),
    };
    session.say(&text);
    Ok(0)
}

fn with(mut answer: Value, opened: bool) -> Value {
    answer["opened"] = opened.into();
    answer
}

/// Whether some program took the URL.
async fn opened(url: &str) -> bool {
    for program in OPENERS {
        let mut command = tokio::process::Command::new(program);
        command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let ended = tokio::time::timeout(OPENING, command.status()).await;
        // Whoever is still there after a while shows it itself.
        if ended.map_or(true, |status| status.is_ok_and(|status| status.success())) {
            return true;
        }
    }
    false
}
