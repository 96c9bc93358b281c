//! `baton serve`: the server in the foreground.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use baton_store::blobs::{Blobs, Settings};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use rustix::fs::Mode;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::chance::SystemChance;
use crate::diffs::Diffs;
use crate::engine::Engine;
use crate::identity::Identity;
use crate::messenger::Messenger;
use crate::notices::{Notices, Range};
use crate::surroundings::{Surroundings, blobs_in, key_file_in, socket_in};
use crate::{clockwork, home, log, operations};

use super::limits::connections_max;
use super::notify::Notifier;
use super::signals::Signals;
use super::start::{DISK, Error, Wish};
use super::tls::Tls;
use super::{Hosts, Limits, Rates, Server, blobs, local, socket};

/// Where it listens if nobody says.
const LISTEN: &str = "127.0.0.1:7117";
/// The longest way out: after that the process goes as it is, which loses nothing that was answered.
const WAY_OUT_MAX: Duration = Duration::from_secs(25);
/// How often it is noted which keys were used.
const NOTE_EVERY: Duration = Duration::from_secs(5);
/// How often the store is tried to be closed, and how long between: two seconds in all.
const CLOSE_TRIES: usize = 200;
const CLOSE_AGAIN: Duration = Duration::from_millis(10);
/// GiB of blobs that each tenant may keep, and the most that can be asked for.
const BLOBS_GIB: &str = "10";
const BLOBS_GIB_MAX: u64 = 1_000_000;
/// A rate that nobody reaches.
const RATE_MAX: i64 = 1_000_000;
/// What it exits with when the way out was cut short.
const CUT_SHORT: u8 = 1;

/// The command as the command line knows it.
#[must_use]
pub fn command() -> Command {
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    Command::new("serve")
        .about("Runs the server in the foreground")
        .after_help(
            "It answers at a socket in the data folder, to the user that it runs as, and over HTTP \
             to whoever has a key. To be reached from other machines it needs a certificate, or a \
             proxy that has one. SIGHUP makes it read the certificate again.",
        )
        .arg(
            Arg::new("data")
                .long("data")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("The data folder"),
        )
        .arg(
            Arg::new("listen")
                .long("listen")
                .value_name("ADDR")
                .value_parser(value_parser!(SocketAddr))
                .default_value(LISTEN)
                .help("Where to listen; port 0 takes any that is free"),
        )
        .arg(
            Arg::new("socket")
                .long("socket")
                .value_name("PATH")
                .value_parser(value_parser!(PathBuf))
                .help(
                    "Where to listen on this machine [default: run/baton.sock in the data folder]",
                ),
        )
        .arg(
            Arg::new("host").long("host").value_name("NAME").action(ArgAction::Append).help(
                "A name under which it is asked for, as in the URL, with a port if it has one",
            ),
        )
        .args(blob_place())
        .arg(webhook_allow())
        .args(certificate())
        .arg(flag("behind-proxy").help("Somebody in front encrypts; allows any address"))
        .args(rates())
        .arg(flag("stop-with-stdin").help("Stop when standard input ends, like whoever started it"))
        .arg(flag("json").help("Say in one line of JSON that it is ready"))
        .arg(flag("conformance-fixtures").hide(true))
}

fn blob_place() -> [Arg; 2] {
    [
        Arg::new("blobs").long("blobs").value_name("DIR").value_parser(value_parser!(PathBuf)).help(
            "Where blobs are; several servers of one database share it [default: blobs in the data \
             folder]",
        ),
        Arg::new("blobs-max")
            .long("blobs-max")
            .value_name("GIB")
            .value_parser(value_parser!(u64).range(1..=BLOBS_GIB_MAX))
            .default_value(BLOBS_GIB)
            .help("How many GiB of blobs each tenant may keep; all together five times as many"),
    ]
}

fn webhook_allow() -> Arg {
    Arg::new("webhook-allow")
        .long("webhook-allow")
        .value_name("RANGE")
        .action(ArgAction::Append)
        .value_parser(value_parser!(Range))
        .help("Addresses that webhooks may go to although they are not of the open network")
}

fn certificate() -> [Arg; 2] {
    let file = |name: &'static str, other: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .requires(other)
            .help(help)
    };
    [
        file("tls-cert", "tls-key", "Speak TLS with this certificate and those above it, as PEM"),
        file("tls-key", "tls-cert", "Its key, as PEM; others must not be able to read it"),
    ]
}

fn rates() -> [Arg; 3] {
    let rate = |name: &'static str, usual: u32, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("N")
            .value_parser(value_parser!(u32).range(..=RATE_MAX))
            .default_value(usual.to_string())
            .help(help)
    };
    let Rates { key, address, failure } = Rates::USUAL;
    [
        rate("key-rate", key, "Requests per second of one key, on average; 0 for no limit"),
        rate("address-rate", address, "The same of one address beyond this machine"),
        rate("failure-rate", failure, "The same of those without a good key"),
    ]
}

/// Serves until it is told to stop. What no flag says, the surroundings say.
pub async fn run(matches: &ArgMatches, around: &Surroundings) -> ExitCode {
    let given = matches.get_one::<PathBuf>("data").cloned().or_else(|| around.folder());
    let Some(folder) = given else {
        let error = Error::NoFolder;
        eprint!("{}", error.told());
        return ExitCode::from(error.exit());
    };
    let listen = matches.get_one::<SocketAddr>("listen").copied();
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let rate = |name: &str| matches.get_one::<u32>(name).copied().expect("it has a default");
    let wish = Wish {
        folder,
        listen: listen.expect("it has a default"),
        database: around.database(),
        programs: around.programs.clone(),
        blobs: path("blobs").or_else(|| around.blobs.clone()),
        blobs_max_gib: matches.get_one::<u64>("blobs-max").copied().expect("it has a default"),
        socket: path("socket").or_else(|| around.socket.clone()),
        behind_proxy: matches.get_flag("behind-proxy"),
        hosts: matches.get_many::<String>("host").into_iter().flatten().cloned().collect(),
        tls: path("tls-cert").zip(path("tls-key")),
        rates: Rates {
            key: rate("key-rate"),
            address: rate("address-rate"),
            failure: rate("failure-rate"),
        },
        webhook_allow: matches.get_many("webhook-allow").into_iter().flatten().copied().collect(),
        with_stdin: matches.get_flag("stop-with-stdin"),
        json: matches.get_flag("json"),
        fixtures: matches.get_flag("conformance-fixtures"),
    };
    match serve(&wish, Arc::new(Notifier::of(around))).await {
        Ok(code) => code,
        Err(error) => {
            eprint!("{}", error.told());
            ExitCode::from(error.exit())
        }
    }
}

async fn serve(wish: &Wish, starter: Arc<Notifier>) -> Result<ExitCode, Error> {
    wish.check()?;
    // Whatever is made from here on is for us alone.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let mut signals = Signals::listen(wish)?;
    let tls = wish.tls.as_ref().map(|(cert, key)| Tls::read(cert, key)).transpose()?.map(Arc::new);
    // The address first: a start that fails for it must not leave a new folder behind.
    home::is_free(&wish.folder)?;
    let listener = TcpListener::bind(wish.listen).await;
    let listener = listener.map_err(|error| Error::listen(wish.listen, error))?;
    let address = listener.local_addr().map_err(|error| Error::listen(wish.listen, error))?;
    let engine = Arc::new(open(wish).await?);
    let blobs = open_blobs(wish)?;
    log::hide(engine.redactor());
    let key_file = key_file_in(&wish.folder);
    let among = wish.database.as_ref().map(|_| local::name_among(&wish.folder));
    let chance = Arc::new(SystemChance);
    let identity = Arc::new(Identity::new(Arc::clone(&engine), chance, operations::scopes()));
    let provided = local::provide(&key_file, among, &engine, &identity).await;
    provided.map_err(|why| Error::KeyFile(key_file.clone(), why))?;
    let path = wish.socket.clone().unwrap_or_else(|| socket_in(&wish.folder));
    let (unix, bound) = socket::bind(&path)?;
    let hosts = Hosts::of(Some(address), &wish.hosts).at(url_of(wish, address));
    let server =
        Server::new(Arc::clone(&engine), Arc::clone(&identity), blobs, hosts, limits(wish));
    engine.keep_diffs(Diffs::new(wish.programs.clone(), &wish.folder));
    let (stop, stopped) = watch::channel(false);
    let (turned, turns) = watch::channel(0);
    let time = tokio::spawn(clockwork::run(Arc::clone(&engine), stopped, turned));
    let living = Arc::clone(&starter);
    let living = tokio::spawn(async move { living.live(turns).await });
    let noting = tokio::spawn(note_uses(Arc::clone(&identity)));
    let telling = tokio::spawn(messenger(wish, &engine).run());
    let accepting = [
        match &tls {
            Some(tls) => tokio::spawn(Arc::clone(&server).accept_tls(listener, Arc::clone(tls))),
            None => tokio::spawn(Arc::clone(&server).accept_tcp(listener)),
        },
        tokio::spawn(Arc::clone(&server).accept_unix(unix)),
    ];
    let gone = home::is_gone(&wish.folder);
    starter.ready(&say_ready(wish, address, &path, &key_file));
    tokio::select! {
        () = signals.stop(tls.as_deref()) => {}
        why = server.store_stopped() => give_up(&format!("the store has stopped: {why}")),
        () = gone => give_up(&format!(
            "{} was moved or removed while it was in use",
            wish.folder.display()
        )),
    }
    tracing::info!("stopping");
    starter.stopping();
    let way_out = async {
        let all = server.drain().await;
        stop.send_replace(true);
        for task in accepting {
            drop(task.await);
        }
        noting.abort();
        telling.abort();
        drop(telling.await);
        // Whoever waits for a sign of life gets it until time stops passing here.
        drop((noting.await, time.await, living.await));
        all
    };
    let all = tokio::select! {
        all = way_out => all,
        () = signals.stop(None) => std::process::exit(i32::from(CUT_SHORT)),
        () = sleep(WAY_OUT_MAX) => std::process::exit(i32::from(CUT_SHORT)),
    };
    drop((server, bound, identity));
    Ok(close(engine, all).await)
}

/// Who tells people what needs them.
fn messenger(wish: &Wish, engine: &Arc<Engine>) -> Arc<Notices> {
    let notices = Notices::new(
        Arc::clone(engine),
        wish.database.is_none(),
        wish.webhook_allow.clone(),
        wish.programs.clone(),
    );
    engine.keep_messenger(&(Arc::clone(&notices) as Arc<dyn Messenger>));
    notices
}

/// The bounds that it serves under.
fn limits(wish: &Wish) -> Limits {
    Limits {
        rates: wish.rates,
        behind_proxy: wish.behind_proxy,
        connections_max: connections_max(),
        fixtures: wish.fixtures,
        ..Limits::default()
    }
}

/// Ends at once. Nothing can be finished any more; what was answered is on disk, and the socket is
/// left over, as after a crash.
fn give_up(why: &str) -> ! {
    tracing::error!(%why, "giving up");
    eprintln!("baton: {why}");
    std::process::exit(i32::from(DISK));
}

/// Opens the database in the folder, or the one elsewhere that is named.
async fn open(wish: &Wish) -> Result<Engine, Error> {
    let chance = Arc::new(SystemChance);
    let Some(named) = &wish.database else {
        return Ok(home::open(&wish.folder, None, chance)?);
    };
    let pepper = named.pepper_file.as_deref();
    Ok(home::open_elsewhere(&wish.folder, named.url.reveal(), pepper, chance).await?)
}

/// Opens the blobs: in the folder, or in a place that the servers of a database share.
fn open_blobs(wish: &Wish) -> Result<Arc<dyn Blobs>, Error> {
    let place = wish.blobs.clone().unwrap_or_else(|| blobs_in(&wish.folder));
    let among = wish.database.is_some();
    if among && wish.blobs.is_none() {
        let place = place.display();
        tracing::warn!(%place, "other servers of this database have no blobs from here: --blobs DIR");
    }
    let settings = Settings::keeping(wish.blobs_max_gib << 30);
    let opened = blobs::open(&place, settings, among && wish.blobs.is_some());
    opened.map_err(|error| Error::Blobs(place, error))
}

/// Notes now and then which keys were used.
async fn note_uses(identity: Arc<Identity>) {
    loop {
        sleep(NOTE_EVERY).await;
        if let Err(error) = identity.note_uses().await {
            tracing::warn!(%error, "the use of keys was not noted");
        }
    }
}

/// Closes the store: what it accepted is carried out, and its log copied back.
async fn close(mut engine: Arc<Engine>, all: bool) -> ExitCode {
    if !all {
        tracing::warn!("some requests were cut off");
    }
    for _ in 0..CLOSE_TRIES {
        match Arc::try_unwrap(engine) {
            Ok(engine) => {
                let closed = tokio::task::spawn_blocking(move || drop(engine)).await;
                return ExitCode::from(if closed.is_ok() && all { 0 } else { CUT_SHORT });
            }
            // Whoever was answered last is still putting its things away.
            Err(held) => engine = held,
        }
        sleep(CLOSE_AGAIN).await;
    }
    // Somebody who was cut off holds it for good; the process ends, and with it the lock.
    ExitCode::from(CUT_SHORT)
}

/// Where it is found. Beyond this machine a certificate is for a name; what a proxy is called is
/// not known here.
fn url_of(wish: &Wish, address: SocketAddr) -> String {
    let scheme = if wish.tls.is_some() { "https" } else { "http" };
    let beyond = wish.tls.is_some() && !address.ip().is_loopback();
    match wish.hosts.first().filter(|_| beyond) {
        Some(name) => format!("{scheme}://{name}"),
        None => format!("{scheme}://{address}"),
    }
}

/// Says that it is ready, and answers where.
fn say_ready(wish: &Wish, address: SocketAddr, socket: &Path, key_file: &Path) -> String {
    let url = url_of(wish, address);
    if wish.json {
        let socket = json!(socket.display().to_string());
        let key_file = json!(key_file.display().to_string());
        let quoted = json!(url);
        // Written by hand so that what is waited for stands first.
        println!(r#"{{"ready":true,"url":{quoted},"socket":{socket},"key_file":{key_file}}}"#);
        return url;
    }
    println!("baton serves at {url} and at {}", socket.display());
    println!("the key of this user is in {}", key_file.display());
    url
}
