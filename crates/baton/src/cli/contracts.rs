//! `baton contract check`: what a commit asks of the runs that begin from it. No server is asked.

use std::path::PathBuf;

use baton_domain::contract::{Contract, Term};
use baton_domain::ids::StageName;
use clap::{Arg, ArgMatches, Command, value_parser};
use serde_json::{Value, json};

use crate::client::Failure;
use crate::contract::{Asked, FILE, FILE_BYTES_MAX, SCHEMA_BYTES_MAX, Whole};
use crate::init;
use crate::problem::Problem;
use crate::shape::Span;
use crate::worktree::{Error, Files, Git, Repository};

use super::worktrees::refused;
use super::{Session, USAGE, upkeep};

/// The command and its verb.
pub(super) fn command() -> Command {
    let named = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    Command::new("contract")
        .about("What must be true before a run counts as complete: check")
        .arg_required_else_help(true)
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("check")
                .about("Say what baton.toml asks for, or what is wrong with it")
                .after_help(
                    "It is read from a commit, not from the folder: what counts for a run is the commit that \
                     it begins from. Lines of a stage and of a task are added to those of the project.",
                )
                .arg(named("commit", "NAME", "Which commit").default_value("HEAD"))
                .arg(named("stage", "NAME", "What is asked for in this stage"))
                .arg(
                    named("dir", "DIR", "Another folder than this one")
                        .value_parser(value_parser!(PathBuf)),
                ),
        )
}

/// Reads it and says so.
pub(super) async fn run(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let Some((_, asked)) = asked.subcommand() else { return Ok(USAGE) };
    let here = match asked.get_one::<PathBuf>("dir") {
        Some(folder) => folder.clone(),
        None => std::env::current_dir().map_err(|error| {
            Failure::from(Problem::new("internal", error.to_string()).next("cd to a folder"))
        })?,
    };
    let stage = asked.get_one::<String>("stage").map(|name| StageName::new(name));
    let stage = stage.transpose().map_err(|refusal| {
        Failure::from(Problem::from(refusal).next("baton contract check --help"))
    })?;
    let commit = asked.get_one::<String>("commit").expect("it has a default").clone();
    let programs = session.around.programs.clone();
    // Git is waited for beside the runtime.
    let looked = tokio::task::spawn_blocking(move || -> Result<(String, Whole), Failure> {
        let git = Git::find(&programs).map_err(refused)?;
        let repository = Repository::at(&git, &init::root(&here)).map_err(refused)?;
        let oid = repository.resolve(&commit).map_err(refused)?;
        let files = repository.files(&oid).map_err(refused)?;
        let whole = read(&files, &commit)?.merged(stage.as_ref(), &Contract::default());
        Ok((oid.to_string(), whole.map_err(wrong)?))
    });
    let broke = |_| Failure::from(Problem::new("internal", "it broke on the way"));
    let (commit, whole) = looked.await.map_err(broke)??;
    upkeep::tell(session, &body(&commit, &whole), &text(&commit, &whole));
    Ok(0)
}

/// What the file of a commit asks for.
fn read(files: &Files, commit: &str) -> Result<Asked, Failure> {
    let none = || {
        let detail = format!("{commit} has no {FILE}: nothing is asked for");
        let next = format!("baton init, then git add {FILE} && git commit -m \"Set up Baton\"");
        Failure::from(Problem::new("not_found", detail).next(next))
    };
    let bytes = match files.read(FILE, FILE_BYTES_MAX) {
        Err(Error::TooMuch { .. }) => return Err(wrong(crate::contract::Error::TooLarge)),
        other => other.map_err(refused)?.ok_or_else(none)?,
    };
    // A schema that is too long is as good as none: the refusal names it.
    let schema = |path: &str| files.read(path, SCHEMA_BYTES_MAX).ok().flatten();
    Asked::read(&bytes, &schema).map_err(wrong)
}

fn wrong(error: crate::contract::Error) -> Failure {
    Problem::new("invalid", error.to_string()).next(error.next()).into()
}

fn body(commit: &str, whole: &Whole) -> Value {
    let lines = &whole.contract.lines;
    json!({
        "commit": commit, "hash": whole.hash.as_str(), "lines": lines, "protected": whole.protected,
    })
}

fn text(commit: &str, whole: &Whole) -> String {
    let mut text = format!("{FILE} of {commit}\n");
    for (name, term) in &whole.contract.lines {
        let asks = match term {
            Term::Artifact { path, bytes_min, schema } => {
                let fits = schema.as_ref().map_or("", |_| ", fits its schema");
                format!("{path} is there, {bytes_min} bytes at least{fits}")
            }
            Term::Gate { command, timeout } => {
                format!("`{command}` succeeds within {}", Span(*timeout))
            }
            Term::Criterion { text, check: Some(check) } => format!("{text}: `{check}` succeeds"),
            Term::Criterion { text, check: None } => text.to_string(),
            Term::Review => "somebody else agrees".to_owned(),
        };
        text.push_str(&format!("{:<16} {asks}\n", name.as_str()));
    }
    if whole.contract.lines.is_empty() {
        text.push_str("Nothing is asked for: what is done here is shown as unverified.\n");
    }
    let protected: Vec<_> = whole.protected.iter().map(|path| path.as_str()).collect();
    text.push_str(&format!("protected        {}\n", protected.join(" ")));
    text.push_str(&format!("hash             {}\n", whole.hash.as_str()));
    text
}

#[cfg(test)]
mod tests;
