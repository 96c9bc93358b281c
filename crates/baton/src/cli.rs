//! The command line: parse, ask, print, exit code. It knows no operation by name: the tree is
//! built from the table, and what everyday commands add is a list.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use baton_store::clock::SystemClock;
use baton_store::{Clock as _, Error};
use clap::ArgMatches;
use clap::error::ErrorKind;
use serde_json::Value;

use crate::aliases::{self, Alias, Extra};
use crate::client::{Asked, Failure};
use crate::filter::Filter;
use crate::handing;
use crate::operation::Entry;
use crate::operations;
use crate::problem::{DESCRIBED, Problem};
use crate::server::command as server;
use crate::surroundings::Surroundings;

mod arguments;
mod asking;
mod background;
mod board;
mod completions;
mod config;
mod contracts;
mod cost;
mod diff;
mod doctor;
mod founding;
mod globals;
mod go;
mod help;
mod logs;
mod merge;
mod open;
mod receipts;
mod render;
mod setup;
mod status;
mod take;
mod tree;
mod uninstall;
mod upkeep;
mod wait;
mod work;
mod worktrees;

pub use crate::aliases::aliases;

use globals::{Globals, Output};
use render::{Depth, Look};

/// What was asked for happened, but its answer could not be written.
const UNSAID: u8 = 1;
/// What was typed cannot be understood.
const USAGE: u8 = 2;
/// What `--timeout` allowed ran out.
const TIMED_OUT: u8 = 124;
/// Somebody pressed Ctrl-C.
const INTERRUPTED: u8 = 130;
/// Commands that know themselves what Ctrl-C means to them.
const ENDS_ITSELF: [&str; 6] =
    ["demo", "mcp", work::NAME, background::UP, background::DOWN, take::NAME];

/// Where the program writes to.
pub(crate) struct Streams<'a> {
    pub(crate) out: &'a mut (dyn Write + Send),
    pub(crate) err: &'a mut (dyn Write + Send),
}

/// One run of the command line.
pub(crate) struct Session<'a> {
    around: &'a Surroundings,
    globals: Globals,
    streams: Streams<'a>,
    /// The key of the last request that may change something.
    sent: RefCell<Option<String>>,
    /// Why the answer, or a part of it, was not written.
    unsaid: Option<std::io::Error>,
}

/// Runs what was asked for.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>, around: &Surroundings) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("baton: {error}");
            return ExitCode::FAILURE;
        }
    };
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.get(1).is_some_and(|name| name == "serve") {
        return runtime.block_on(serve(&arguments, around));
    }
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    let streams = Streams { out: &mut out, err: &mut err };
    let exit = runtime.block_on(run_in(arguments, around, streams));
    // A read of stdin that nobody waits for any more must not keep the program alive.
    runtime.shutdown_background();
    ExitCode::from(exit)
}

/// The server has flags of its own that are called like those of every other command: it is read
/// apart.
async fn serve(arguments: &[OsString], around: &Surroundings) -> ExitCode {
    let apart = clap::Command::new("baton").subcommand(server::command());
    match apart.try_get_matches_from(arguments) {
        Ok(matches) => {
            let (_, asked) = matches.subcommand().expect("the first word is its name");
            if let Some(name) = around.not_for_this_server() {
                let detail = format!("{name} goes with BATON_DATABASE_URL: set both, or none");
                let problem = Problem::new("malformed", detail).next(format!("unset {name}"));
                return ExitCode::from(report(&problem.into(), false, &mut std::io::stderr()));
            }
            server::run(asked, around).await
        }
        Err(error) => {
            let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
            let mut streams = Streams { out: &mut out, err: &mut err };
            // Its own `--json` is about what it says once it is ready.
            let plain = Surroundings { output: None, ..around.clone() };
            ExitCode::from(unparsed(&error, &arguments[..2], &plain, &mut streams))
        }
    }
}

/// The same, with everything that it touches passed in.
pub(crate) async fn run_in<'a>(
    arguments: impl IntoIterator<Item = OsString>,
    around: &'a Surroundings,
    mut streams: Streams<'a>,
) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let matches = match tree::tree().try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(error) => return unparsed(&error, &arguments, around, &mut streams),
    };
    let globals = match Globals::read(&matches, around) {
        Ok(globals) => globals,
        Err(failure) => return report(&failure, false, streams.err),
    };
    // The demo has a server to stop and a folder to clear away, an agent has runs to give back, a worker
    // has agents: they end by themselves when told to.
    let ends_itself = matches.subcommand_name().is_some_and(|name| ENDS_ITSELF.contains(&name));
    let limit = globals.timeout.filter(|_| !ends_itself);
    let json = globals.output != Output::Text;
    let mut session = Session { around, globals, streams, sent: RefCell::default(), unsaid: None };
    let done = async {
        let done = session.dispatch(&matches);
        match limit {
            None => done.await,
            Some(limit) => tokio::time::timeout(limit, done).await.unwrap_or(Ok(TIMED_OUT)),
        }
    };
    let done = tokio::select! {
        done = done => done,
        Ok(()) = tokio::signal::ctrl_c(), if !ends_itself => Ok(INTERRUPTED),
    };
    match done {
        Ok(exit) => session.close(exit, json),
        Err(failure) => report(&failure, json, session.streams.err),
    }
}

/// Says why there is no answer, and what to exit with.
fn report(failure: &Failure, json: bool, err: &mut dyn Write) -> u8 {
    let mut body = failure.body.clone();
    let text = if json {
        render::json(&serde_json::json!({ "error": body }))
    } else {
        // Nothing that people type is described for programs alone.
        if body["next"][0] == DESCRIBED {
            body["next"][0] = "baton --help".into();
        }
        render::failure(&body)
    };
    drop(err.write_all(text.as_bytes()));
    failure.exit
}

/// Help and version are answers; everything else that clap says is a mistake of whoever typed.
fn unparsed(
    error: &clap::Error,
    arguments: &[OsString],
    around: &Surroundings,
    streams: &mut Streams<'_>,
) -> u8 {
    let text = error.render().to_string();
    if error.exit_code() == 0 {
        drop(streams.out.write_all(text.as_bytes()));
        return 0;
    }
    let asks_json = |argument: &OsString| argument == "--json" || argument == "--jsonl";
    let json = arguments.iter().any(asks_json)
        || matches!(around.output.as_deref(), Some("json" | "jsonl"));
    let half = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if half && !json {
        // Whoever typed half of a command is shown the other half.
        drop(streams.err.write_all(render::clean::lines(&text).as_bytes()));
        return USAGE;
    }
    let detail = if half { "a command is missing".to_owned() } else { mistake(&text) };
    let next = format!("{} --help", tree::path_of(arguments));
    report(&Problem::new("malformed", detail).next(next).into(), json, streams.err)
}

/// What was wrong, in one line: what clap says up to the first empty line, and what it guesses was
/// meant.
fn mistake(text: &str) -> String {
    let lines = || text.lines().map(str::trim);
    let what: Vec<_> = lines().take_while(|line| !line.is_empty()).collect();
    let mut detail = what.join(" ").trim_start_matches("error: ").to_owned();
    for tip in lines().filter_map(|line| line.strip_prefix("tip: ")) {
        detail.push_str(&format!("; {tip}"));
    }
    detail
}

/// What the words of a filter stand for.
fn filtered(matches: &ArgMatches) -> serde_json::Map<String, Value> {
    let words = matches.get_many::<String>(tree::FILTER).into_iter().flatten();
    let words: Vec<_> = words.map(String::as_str).collect();
    Filter::read(&words.join(" ")).arguments()
}

impl Session<'_> {
    /// Says why somebody is left without an answer, if so, and what to exit with.
    fn close(mut self, exit: u8, json: bool) -> u8 {
        let (why, exit) = match (exit, self.unsaid.take()) {
            (TIMED_OUT, _) => ("--timeout ran out".to_owned(), exit),
            (INTERRUPTED, _) => ("interrupted".to_owned(), exit),
            (0, Some(error)) => (format!("the answer could not be written: {error}"), UNSAID),
            _ => return exit,
        };
        // Whoever asks again under this key is told what became of it.
        let sent = self.sent.take();
        let next = sent.map(|key| format!("the same command with --idempotency-key {key}"));
        if json {
            let problem = match next {
                Some(next) => Problem::from(Error::Unknown(why)).next(next),
                None => Problem::new("unknown", why),
            };
            report(&problem.into(), true, self.streams.err);
            return exit;
        }
        drop(writeln!(self.streams.err, "error: {why}"));
        if let Some(next) = next {
            let hint = "what was asked may have happened";
            drop(writeln!(self.streams.err, "  why: {hint}\n  next: {next}"));
        }
        exit
    }

    async fn dispatch(&mut self, matches: &ArgMatches) -> Result<u8, Failure> {
        let Some((name, inner)) = matches.subcommand() else { return status::show(self).await };
        if let Some((verb @ ("export" | "verify"), innermost)) = inner.subcommand()
            && name == "receipt"
        {
            return receipts::run(self, verb, innermost).await;
        }
        if let Some((verb, innermost)) = inner.subcommand()
            && let Some(entry) = operations::find(name, verb)
        {
            return self.perform(entry, innermost, entry.about.columns, &[]).await;
        }
        if let Some(alias) = aliases::find(name)
            && let Some(entry) = alias.entry()
        {
            return self.everyday(alias, entry, inner).await;
        }
        match name {
            logs::NAME => return logs::run(self, inner).await,
            diff::NAME => return diff::run(self, inner).await,
            board::NAME => return board::run(self, inner).await,
            cost::NAME => return cost::run(self, inner).await,
            merge::NAME => return merge::run(self, inner).await,
            take::NAME => return take::run(self, inner).await,
            config::NAME => return config::run(self, inner),
            uninstall::NAME => return uninstall::run(self, inner).await,
            help::NAME => return help::run(self, inner),
            open::NAME => return open::run(self, inner).await,
            wait::NAME => return wait::run(self, inner).await,
            work::NAME => return work::run(self, inner).await,
            background::UP => return background::up(self, inner).await,
            background::DOWN => return background::down(self, inner).await,
            _ => {}
        }
        upkeep::dispatch(self, name, inner).await
    }

    async fn everyday(
        &mut self,
        alias: &'static Alias,
        entry: &'static Entry,
        matches: &ArgMatches,
    ) -> Result<u8, Failure> {
        // `show` tells by the number what is meant: a task, or one of its runs.
        let named = matches.try_get_one::<String>("task").ok().flatten();
        let run = named.map(|id| arguments::spelled("R-", id));
        let run = run.filter(|id| id.starts_with("R-") || id == "mine");
        if alias.name == "show"
            && let (Some(show), Some(id)) = (operations::find("run", "show"), run)
        {
            let mut arguments = serde_json::Map::new();
            arguments.insert("run".to_owned(), id.into());
            return self.send(show, arguments, show.about.columns).await;
        }
        let columns = if alias.columns.is_empty() { entry.about.columns } else { alias.columns };
        match alias.extra {
            Extra::Go if matches.get_flag(tree::GO) => go::run(self, entry, matches, columns).await,
            Extra::Filter => {
                let mut arguments = filtered(matches);
                arguments.extend(self.arguments(entry, matches, alias.fixed)?);
                self.send(entry, arguments, columns).await
            }
            Extra::Nothing | Extra::Go => self.perform(entry, matches, columns, alias.fixed).await,
        }
    }

    async fn perform(
        &mut self,
        entry: &'static Entry,
        matches: &ArgMatches,
        columns: &[&str],
        fixed: &[(&'static str, &'static str)],
    ) -> Result<u8, Failure> {
        let mut arguments = self.arguments(entry, matches, fixed)?;
        if founding::is_open(&entry.about, &arguments) {
            founding::fill(self, &mut arguments).await?;
        }
        self.send(entry, arguments, columns).await
    }

    /// What was typed, as the operation takes it.
    fn arguments(
        &self,
        entry: &'static Entry,
        matches: &ArgMatches,
        fixed: &[(&'static str, &'static str)],
    ) -> Result<serde_json::Map<String, Value>, Failure> {
        let asked = matches.try_get_one::<String>("@input").ok().flatten();
        let input = arguments::input(asked, self.globals.no_input);
        let input = input.map_err(|failure| self.for_people(failure, entry))?;
        let around = arguments::Around {
            project: self.globals.project.as_deref(),
            usual_project: self.around.project.as_deref(),
            has_token: self.around.claim_token.is_some(),
            fixed,
        };
        let arguments = arguments::arguments(entry, matches, &around, input);
        arguments.map_err(|failure| self.for_people(failure, entry))
    }

    async fn send(
        &mut self,
        entry: &'static Entry,
        arguments: serde_json::Map<String, Value>,
        columns: &[&str],
    ) -> Result<u8, Failure> {
        let body = match handing::is_open(&entry.about, &arguments) {
            true => self.complete(entry, arguments).await?,
            false => self.ask(entry, arguments).await?,
        };
        self.print(&body, entry, columns);
        Ok(0)
    }

    /// Says that a run is done; files that its contract asks for and that are here are handed in.
    async fn complete(
        &self,
        entry: &'static Entry,
        mut arguments: serde_json::Map<String, Value>,
    ) -> Result<Value, Failure> {
        let refused = match self.ask(entry, arguments.clone()).await {
            Err(failure) if failure.code() == "incomplete" => failure,
            other => return other,
        };
        let Ok(here) = std::env::current_dir() else { return Err(refused) };
        let client = self.globals.client(self.around)?;
        let artifacts = handing::hand_in(&client, refused, here).await?;
        arguments.insert("artifacts".to_owned(), artifacts);
        self.ask(entry, arguments).await
    }

    /// Asks the server for an operation.
    async fn ask(
        &self,
        entry: &'static Entry,
        arguments: serde_json::Map<String, Value>,
    ) -> Result<Value, Failure> {
        let client = self.globals.client(self.around)?;
        let named = Value::Object(arguments.clone());
        let mut asked = Asked::new(&entry.about, arguments)?;
        asked.if_match = self.globals.if_match;
        if entry.about.changes() {
            let said = self.globals.request_key.clone();
            asked.request_key = Some(said.unwrap_or_else(|| client.mint_key()));
            self.sent.replace(asked.request_key.clone());
        }
        client.ask(&asked).await.map_err(|failure| {
            // People are told by name what is not there; programs get the answer as it is.
            let for_people = self.globals.output == Output::Text && failure.code() == "not_found";
            let named = for_people.then(|| Problem::missing(&named)).flatten();
            self.for_people(named.map_or(failure, Failure::from), entry)
        })
    }

    /// Whoever types a command reads its help, not the description for programs.
    fn for_people(&self, mut failure: Failure, entry: &Entry) -> Failure {
        if self.globals.output == Output::Text && failure.body["next"][0] == DESCRIBED {
            let help = format!("baton {} {} --help", entry.about.noun, entry.about.verb);
            failure.body["next"] = serde_json::json!([help]);
        }
        failure
    }

    fn print(&mut self, body: &Value, entry: &Entry, columns: &[&str]) {
        if self.globals.quiet {
            return;
        }
        let text = match self.globals.output {
            Output::Json => render::json(body),
            Output::JsonLines => render::json_lines(body),
            Output::Text => {
                let depth = if entry.about.changes() { Depth::Columns } else { Depth::Whole };
                render::answer(body, &entry.answer, columns, depth, self.look(body))
            }
        };
        self.say(&text);
        let token = body["claim_token"].as_str().filter(|_| self.globals.output == Output::Text);
        if let Some(token) = token {
            // On the stream that has the token already: it goes nowhere else.
            let next = "baton checkpoint \"how far it is\"";
            let token = render::clean::line(token);
            self.say(&format!("next: export BATON_CLAIM_TOKEN={token}\n      {next}\n"));
        }
    }

    /// Times are told from the server's clock where it says what time it is.
    fn look(&self, body: &Value) -> Look {
        let said: Option<crate::shape::When> = body["at"].as_str().and_then(|at| at.parse().ok());
        let own = || SystemClock::starting_at(baton_domain::time::Timestamp(0)).now();
        Look {
            color: self.globals.color,
            now: said.map_or_else(own, |at| at.0),
            all: self.globals.all,
        }
    }

    /// Rings the bell of a terminal, beside what is answered.
    fn ring(&mut self) {
        let err = &mut self.streams.err;
        // Nobody may be there to hear it.
        drop(err.write_all(b"\x07").and_then(|()| err.flush()));
    }

    /// A reader that went away is no failure of ours; a disk without room loses what was asked for.
    fn say(&mut self, text: &str) {
        let out = &mut self.streams.out;
        if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush())
            && error.kind() != std::io::ErrorKind::BrokenPipe
        {
            self.unsaid.get_or_insert(error);
        }
    }
}

#[cfg(test)]
mod tests;
