//! `baton receipt export` and `baton receipt verify`: proofs that leave Baton, and are checked without it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::{Map, json};

use crate::chance::SystemChance;
use crate::client::Failure;
use crate::operations;
use crate::problem::Problem;
use crate::receipts::{self, BYTES_MAX, Found, PublicKey, Signer, Statement};
use crate::tokens::Secrets;

use super::{Session, arguments, upkeep};

/// The verbs that are added to those of the table.
pub(super) fn commands() -> [Command; 2] {
    let argument = |name: &'static str, help: &'static str| {
        Arg::new(name).value_name(name.to_uppercase()).required(true).help(help)
    };
    let export = Command::new("export")
        .about("Print the signed receipt of a line, to keep it in a file")
        .arg(argument("task", "Of which task"))
        .arg(argument("line", "Which line of its contract"));
    let verify = Command::new("verify")
        .about("Check a receipt in a file, without a server; one changed byte fails")
        .after_help(
            "Trusted are the keys that are named, or else the key of the data folder here. The public key of \
             a server: baton receipt keys.",
        )
        .arg(argument("file", "The receipt").value_parser(value_parser!(PathBuf)))
        .arg(
            Arg::new("key")
                .long("key")
                .value_name("HEX")
                .action(ArgAction::Append)
                .help("A public key that is trusted (may be given several times)"),
        )
        .arg(
            Arg::new("data")
                .long("data")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("The data folder; the usual one if it is left out (BATON_HOME)"),
        );
    [export, verify]
}

/// Runs one of the verbs.
pub(super) async fn run(
    session: &mut Session<'_>,
    verb: &str,
    asked: &ArgMatches,
) -> Result<u8, Failure> {
    if verb == "export" { export(session, asked).await } else { verify(session, asked) }
}

async fn export(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let word = |name: &str| asked.get_one::<String>(name).expect("clap requires it").clone();
    let show = operations::find("receipt", "show").expect("it is in the table");
    let mut named = Map::new();
    named.insert("task".to_owned(), arguments::spelled("T-", &word("task")).into());
    named.insert("line".to_owned(), word("line").into());
    let body = session.ask(show, named).await?;
    let Some(signed) = body["signed"].as_str() else {
        let detail = "this receipt is from before receipts were signed";
        return Err(Problem::new("not_found", detail).next("baton receipt show").into());
    };
    let told = json!({ "signed": signed });
    upkeep::tell(session, &told, &format!("{signed}\n"));
    Ok(0)
}

fn verify(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let path = asked.get_one::<PathBuf>("file").expect("clap requires it");
    let trusted = trusted(session, asked)?;
    let mut bytes = vec![];
    let read = File::open(path).and_then(|file| file.take(BYTES_MAX + 2).read_to_end(&mut bytes));
    read.map_err(|error| {
        let detail = format!("{}: {error}", path.display());
        Failure::from(Problem::new("not_found", detail).next("baton receipt export TASK LINE"))
    })?;
    // What is printed ends with the end of a line, which is not signed.
    let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let (body, text, exit) = match receipts::verify(text, &trusted) {
        Ok((statement, key)) => {
            let fails = statement.found == Found::Fails;
            let body = json!({ "genuine": true, "key": key.id(), "statement": statement });
            (body, told(&statement, &key), u8::from(fails))
        }
        Err(forged) => {
            let body = json!({ "genuine": false, "why": forged.to_string() });
            let next = "next: baton receipt keys, at the server that it should be of";
            (body, format!("It proves nothing: {forged}.\n{next}\n"), 1)
        }
    };
    upkeep::tell(session, &body, &text);
    Ok(exit)
}

/// The keys that receipts are trusted by: those that are named, or the one of the data folder.
fn trusted(session: &Session<'_>, asked: &ArgMatches) -> Result<Vec<PublicKey>, Failure> {
    let named: Vec<&String> = asked.get_many::<String>("key").into_iter().flatten().collect();
    if !named.is_empty() {
        let read = |digits: &&String| {
            PublicKey::read(digits).ok_or_else(|| {
                let detail = "`key` must be the 64 hexadecimal digits of a public key";
                Failure::from(Problem::new("invalid", detail).next("baton receipt keys"))
            })
        };
        return named.iter().map(read).collect();
    }
    let folder = upkeep::folder(session, asked)?;
    let pepper = session.around.pepper_file.clone().unwrap_or_else(|| folder.join("pepper"));
    own(&pepper).map(|key| vec![key])
}

/// The public key of a data folder. Looking must not make one.
fn own(pepper: &Path) -> Result<PublicKey, Failure> {
    if pepper.symlink_metadata().is_err() {
        let detail = format!("there is no {} to know the key by", pepper.display());
        let next = "the same command with --key HEX: see baton receipt keys";
        return Err(Problem::new("malformed", detail).next(next).into());
    }
    let secrets = Secrets::open(pepper, &SystemChance).map_err(|error| {
        Failure::from(Problem::new("internal", error.to_string()).next("baton doctor"))
    })?;
    Ok(Signer::new(&secrets.proving()).public())
}

fn told(statement: &Statement, key: &PublicKey) -> String {
    let Statement { task, run, line, by, .. } = statement;
    let found = match statement.found {
        Found::Holds => "holds, as checked by",
        Found::Fails => "does not hold, as checked by",
        Found::Waived => "is vouched for by",
    };
    let mut text = format!("The receipt is genuine: line {line} of {task}, {run}, {found} {by}.\n");
    let row = |name: &str, value: Option<&str>| {
        value.map_or_else(String::new, |value| format!("{name:<12} {value}\n"))
    };
    text.push_str(&row("reason", statement.reason.as_ref().map(|reason| reason.as_str())));
    text.push_str(&row("tree", statement.tree.as_ref().map(|tree| tree.as_str())));
    text.push_str(&row("contract", Some(statement.contract.as_str())));
    text.push_str(&row("asks", Some(statement.asks.as_str())));
    text.push_str(&row("evidence", statement.evidence.as_ref().map(|digest| digest.as_str())));
    text.push_str(&row("key", Some(&key.id())));
    text
}

#[cfg(test)]
mod tests;
