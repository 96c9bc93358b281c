//! `baton work`: runs agents in the foreground.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::chance::SystemChance;
use crate::client::{Address, Failure, KeyFrom, Trust};
use crate::problem::Problem;
use crate::worker::prepare::Premises;
use crate::worker::settings::{self, Found, Settings};
use crate::worker::{self, Order, Sign, Wish};

use super::{Output, Session, upkeep};

/// What people type.
pub(super) const NAME: &str = "work";
/// Orders that wait; nobody presses keys faster.
const ORDERS_MAX: usize = 8;

/// The command as the command line knows it.
pub(super) fn command() -> Command {
    Command::new(NAME)
        .about("Run agents in the foreground, for the server here or elsewhere")
        .after_help(
            "Which agents there are says worker.toml in the data folder; without it, the first of claude, codex, \
             gemini and opencode that is on PATH. Elsewhere: --url URL --key-file FILE, with a key from `baton \
             key create --name NAME --principal NAME --kind worker --scopes worker`.\n\
             Ctrl-C ends it with its last agent, a second one stops the agents first. SIGTERM ends it at once: \
             agents live on for a while, and the next worker of this data folder takes them over.",
        )
        .arg(
            Arg::new("slots")
                .long("slots")
                .value_name("N")
                .value_parser(value_parser!(u16).range(1..=256))
                .help("Agents at once, whatever worker.toml says"),
        )
        .arg(
            Arg::new("once")
                .long("once")
                .action(ArgAction::SetTrue)
                .help("Work on one run, then end"),
        )
}

/// Works until it is told to end.
pub(super) async fn run(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let folder = folder(session)?;
    let found = found(session)?;
    let mut settings = read(&folder, &found)?;
    settings.slots = asked.get_one("slots").copied().unwrap_or(settings.slots);
    let address = session.globals.address(session.around)?;
    let key = session.globals.key(session.around, &address);
    let shown = address.to_string();
    let agents = settings.agents.keys().cloned().collect::<Vec<_>>();
    let slots = settings.slots;
    let wish = Wish {
        premises: Premises {
            data: folder,
            address: absolute(address)?,
            trust: session.globals.ca_file.clone().map_or(Trust::Machine, Trust::File),
            secrets: secrets(session, &key)?,
            key,
            settings,
            found,
            chance: Arc::new(SystemChance),
        },
        once: asked.get_flag("once"),
    };
    let orders = orders().map_err(|error| broke(&error))?;
    let mut is_ready = false;
    let tell = |sign: Sign| match sign {
        Sign::Ready { agents: running } if !is_ready => {
            is_ready = true;
            let body = json!({
                "ready": true, "server": shown, "agents": agents, "slots": slots, "running": running,
            });
            let who = agents.join(", ");
            let text =
                format!("baton works for {shown}: {who}; {slots} at once, {running} taken over\n");
            ready(session, &body, &text);
        }
        Sign::Away(why) if !is_ready => {
            drop(writeln!(session.streams.err, "baton: waits for {shown}: {why}"));
        }
        Sign::Ready { .. } => tracing::info!("the server is there again"),
        Sign::Away(_) => {}
        Sign::Full => {
            let why =
                "the disk takes no reports: they are held, and nothing more is begun until it does";
            drop(writeln!(session.streams.err, "baton: {why}; next: make room in the data folder"));
        }
        Sign::Short(Some(short)) => {
            tracing::warn!(%short, "no more work is taken");
            drop(writeln!(session.streams.err, "baton: takes no more work: {short}"));
        }
        Sign::Short(None) => {
            tracing::info!("work is taken again");
            drop(writeln!(session.streams.err, "baton: takes work again"));
        }
    };
    match worker::run(wish, orders, tell).await {
        Ok(()) => Ok(0),
        Err(error @ worker::Error::Taken) => {
            Err(Problem::new("name_taken", error.to_string()).next("baton down").into())
        }
        Err(error @ worker::Error::Folder(_)) => Err(broke(&error)),
    }
}

fn ready(session: &mut Session<'_>, body: &serde_json::Value, text: &str) {
    match session.globals.output {
        // In one line, as a server says it, for whoever waits for it.
        Output::Json | Output::JsonLines => session.say(&format!("{body}\n")),
        Output::Text => upkeep::tell(session, body, text),
    }
}

/// What signals mean: to end with the last agent, to stop agents first, to leave.
fn orders() -> std::io::Result<mpsc::Receiver<Order>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut now = signal(SignalKind::user_defined1())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let (tell, orders) = mpsc::channel(ORDERS_MAX);
    tokio::spawn(async move {
        let mut drains = false;
        loop {
            let order = tokio::select! {
                _ = interrupt.recv() => match std::mem::replace(&mut drains, true) {
                    false => Order::Drain,
                    true => Order::Stop,
                },
                _ = now.recv() => Order::Stop,
                _ = terminate.recv() => Order::Leave,
                _ = hang_up.recv() => Order::Leave,
            };
            if tell.send(order).await.is_err() {
                return;
            }
        }
    });
    Ok(orders)
}

/// The data folder, by its whole name.
pub(super) fn folder(session: &Session<'_>) -> Result<PathBuf, Failure> {
    let folder = session.around.folder().ok_or_else(|| {
        let detail = "neither BATON_HOME nor HOME says where the data folder is";
        Failure::from(Problem::new("malformed", detail).next("export BATON_HOME=~/.baton"))
    })?;
    std::path::absolute(folder).map_err(|error| broke(&error))
}

/// What opens Baton and need not lie in the data folder: agents must not see it, wherever it is.
fn secrets(session: &Session<'_>, key: &KeyFrom) -> Result<Vec<PathBuf>, Failure> {
    let own = match key {
        KeyFrom::File(path) => Some(path),
        KeyFrom::Text(_) | KeyFrom::Nowhere => None,
    };
    let around = [&session.around.key_file, &session.around.pepper_file].into_iter().flatten();
    let named = own.into_iter().chain(around);
    let whole = |path: &PathBuf| std::path::absolute(path).map_err(|error| broke(&error));
    named.map(whole).collect()
}

/// What this machine has.
pub(super) fn found(session: &Session<'_>) -> Result<Found, Failure> {
    let own = std::env::current_exe().map_err(|error| broke(&error))?;
    let (programs, variables) =
        (session.around.programs.clone(), session.around.variables.0.clone());
    Ok(Found { programs, own, variables })
}

/// What the worker of a data folder is told.
pub(super) fn read(folder: &Path, found: &Found) -> Result<Settings, Failure> {
    Settings::read(folder, found).map_err(|error: settings::Error| {
        let code = match &error {
            settings::Error::NoAgent(_) => "no_agent",
            settings::Error::File { .. }
            | settings::Error::Syntax { .. }
            | settings::Error::Invalid { .. } => "invalid",
        };
        Problem::new(code, error.to_string()).next(error.next()).into()
    })
}

/// Agents work elsewhere: they must find the socket from there, too.
fn absolute(address: Address) -> Result<Address, Failure> {
    Ok(match address {
        Address::Socket(path) => {
            Address::Socket(std::path::absolute(path).map_err(|error| broke(&error))?)
        }
        elsewhere @ Address::Tcp { .. } => elsewhere,
    })
}

pub(super) fn broke(error: &dyn std::error::Error) -> Failure {
    Problem::new("internal", error.to_string()).into()
}
