//! `baton config show`: every setting that counts here, and where it comes from.

use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value, json};

use crate::client::{Failure, KeyFrom};
use crate::init;
use crate::worker::settings::{FILE, Settings};

use super::render::clean::line;
use super::{Session, upkeep, work};

/// What people type.
pub(super) const NAME: &str = "config";
/// What `init` writes in a repository.
const PROJECT_FILE: &str = "baton.toml";
/// Settings of one file that are shown; the others are counted.
const ROWS_MAX: usize = 200;
/// Bytes of a file that is read for them.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// One setting.
struct Row {
    name: String,
    value: String,
    origin: String,
}

fn row(name: &str, value: impl Into<String>, origin: impl Into<String>) -> Row {
    Row { name: name.to_owned(), value: value.into(), origin: origin.into() }
}

/// The command as the command line knows it.
pub(super) fn command() -> Command {
    Command::new(NAME)
        .about("Show the settings that count here")
        .arg_required_else_help(true)
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("show")
                .about("List every setting, its value and where it comes from")
                .after_help(
                    "A flag wins over a variable, a variable over a file, a file over the default.",
                )
                .arg(
                    Arg::new("origin")
                        .long("origin")
                        .action(ArgAction::SetTrue)
                        .help("Say where each comes from"),
                ),
        )
}

/// Lists them.
pub(super) fn run(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let Some((_, asked)) = asked.subcommand() else { return Ok(super::USAGE) };
    let mut rows = of_client(session)?;
    rows.extend(of_worker(session)?);
    if let Ok(here) = std::env::current_dir() {
        let path = init::root(&here).join(PROJECT_FILE);
        rows.extend(of_file("project", &path));
    }
    let body: Vec<Value> = rows
        .iter()
        .map(|row| json!({ "name": row.name, "value": row.value, "origin": row.origin }))
        .collect();
    upkeep::tell(session, &json!({ "items": body }), &text(&rows, asked.get_flag("origin")));
    Ok(0)
}

fn text(rows: &[Row], origin: bool) -> String {
    let widest =
        |of: fn(&Row) -> &String| rows.iter().map(|row| of(row).chars().count()).max().unwrap_or(0);
    let (name, value) = (widest(|row| &row.name), widest(|row| &row.value));
    let line = |row: &Row| {
        let said = if origin { format!("  {}", row.origin) } else { String::new() };
        let text = format!("{:name$}  {:value$}{said}", row.name, row.value);
        format!("{}\n", text.trim_end())
    };
    rows.iter().map(line).collect()
}

/// What this command line asks, and as whom.
fn of_client(session: &Session<'_>) -> Result<Vec<Row>, Failure> {
    let (around, globals) = (session.around, &session.globals);
    let from =
        |flag: bool, variable: bool, flag_name: &str, variable_name: &str| match (flag, variable) {
            (true, _) => format!("flag {flag_name}"),
            (false, true) => format!("environment {variable_name}"),
            (false, false) => "default".to_owned(),
        };
    let folder = around.folder().map_or_else(|| "none".to_owned(), |one| one.display().to_string());
    let address = globals.address(around)?;
    let server = match (&globals.url, &globals.socket, &around.url, &around.socket) {
        (Some(_), ..) => "flag --url".to_owned(),
        (None, Some(_), ..) => "flag --socket".to_owned(),
        (None, None, Some(_), _) => "environment BATON_URL".to_owned(),
        (None, None, None, Some(_)) => "environment BATON_SOCKET".to_owned(),
        (None, None, None, None) => "default".to_owned(),
    };
    let (key, key_from) = match globals.key(around, &address) {
        KeyFrom::File(path) => {
            let origin = from(
                globals.key_file.is_some(),
                around.key_file.is_some(),
                "--key-file",
                "BATON_KEY_FILE",
            );
            (path.display().to_string(), origin)
        }
        KeyFrom::Text(_) => ("(a secret)".to_owned(), "environment BATON_KEY".to_owned()),
        KeyFrom::Nowhere => ("none: the socket tells who you are".to_owned(), "default".to_owned()),
    };
    let project = session.project().cloned().unwrap_or_else(|| "none".to_owned());
    let project_from =
        from(globals.project.is_some(), around.project.is_some(), "--project", "BATON_PROJECT");
    let output = around.output.clone().unwrap_or_else(|| "text".to_owned());
    let output_from = from(false, around.output.is_some(), "", "BATON_OUTPUT");
    let home_from = from(false, around.home.is_some(), "", "BATON_HOME");
    Ok(vec![
        row("data", folder, home_from),
        row("server", line(&address.to_string()), server),
        row("key", key, key_from),
        row("project", line(&project), project_from),
        row("output", line(&output), output_from),
        row("color", if globals.color { "on" } else { "off" }, "terminal, NO_COLOR, --color"),
    ])
}

/// What a worker of this data folder does.
fn of_worker(session: &Session<'_>) -> Result<Vec<Row>, Failure> {
    let folder = work::folder(session)?;
    let path = folder.join(FILE);
    let said = table(&path);
    let from = |name: &str| match said.contains_key(name) {
        true => format!("file {}", path.display()),
        false => "default".to_owned(),
    };
    let settings = match Settings::read(&folder, &work::found(session)?) {
        Ok(settings) => settings,
        Err(error) => return Ok(vec![row("worker", line(&error.to_string()), from("agents"))]),
    };
    let isolation = format!("{:?}", settings.isolation).to_lowercase();
    let mut rows = vec![
        row("worker.slots", settings.slots.to_string(), from("slots")),
        row("worker.memory_floor", mib(settings.memory_floor), from("memory_floor")),
        row("worker.disk_floor", mib(settings.disk_floor), from("disk_floor")),
        row(
            "worker.snapshot_every",
            format!("{}s", settings.snapshot_every.as_secs()),
            from("snapshot_every"),
        ),
        row("worker.isolation", isolation, from("isolation")),
        row("worker.env", settings.env.join(" "), from("env")),
    ];
    let found =
        if said.contains_key("agents") { from("agents") } else { "found on PATH".to_owned() };
    for (name, agent) in &settings.agents {
        rows.push(row(
            &format!("worker.agents.{}", line(name)),
            agent.program.word(),
            found.clone(),
        ));
    }
    if let Some(name) = &settings.default_agent {
        rows.push(row("worker.default_agent", line(name), from("default_agent")));
    }
    Ok(rows)
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// A file as a table; one that cannot be read says nothing.
fn table(path: &Path) -> toml::Table {
    let size = path.metadata().map(|about| about.len()).unwrap_or(u64::MAX);
    let text = match size <= FILE_BYTES_MAX {
        true => std::fs::read_to_string(path).unwrap_or_default(),
        false => String::new(),
    };
    text.parse().unwrap_or_default()
}

/// Everything that a file says, by its whole names.
fn of_file(under: &str, path: &Path) -> Vec<Row> {
    let mut rows = vec![];
    let origin = format!("file {}", path.display());
    flatten(under, &toml::Value::Table(table(path)), &origin, &mut rows);
    let surplus = rows.len().saturating_sub(ROWS_MAX);
    rows.truncate(ROWS_MAX);
    if surplus > 0 {
        rows.push(row(under, format!("… and {surplus} more"), origin));
    }
    rows
}

fn flatten(name: &str, value: &toml::Value, origin: &str, rows: &mut Vec<Row>) {
    match value {
        toml::Value::Table(table) => {
            for (key, inner) in table {
                flatten(&format!("{name}.{}", line(key)), inner, origin, rows);
            }
        }
        toml::Value::String(_)
        | toml::Value::Integer(_)
        | toml::Value::Float(_)
        | toml::Value::Boolean(_)
        | toml::Value::Datetime(_)
        | toml::Value::Array(_) => rows.push(row(name, line(&written(value)), origin)),
    }
}

/// A value as people write it.
fn written(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(yes) => yes.to_string(),
        toml::Value::Datetime(at) => at.to_string(),
        toml::Value::Array(items) => items.iter().map(written).collect::<Vec<_>>().join(", "),
        toml::Value::Table(table) => format!("{} settings", table.len()),
    }
}
