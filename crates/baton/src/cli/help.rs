//! `baton help`: the help of a command, a page about a topic, and all of it as a manual page.

use clap::{Arg, ArgMatches, Command};
use serde_json::json;

use crate::client::Failure;
use crate::problem::Problem;
use crate::surface;

use super::{Session, tree, upkeep};

mod manual;

/// What people type.
pub(super) const NAME: &str = "help";

/// A page that no command has.
struct Topic {
    name: &'static str,
    about: &'static str,
    text: fn() -> String,
}

const TOPICS: &[Topic] = &[
    Topic { name: "start", about: "the first ten minutes", text: || START.to_owned() },
    Topic {
        name: "filters",
        about: "how tasks are picked, here and in the dashboard",
        text: || FILTERS.to_owned(),
    },
    Topic { name: "states", about: "the words for how a task is", text: || STATES.to_owned() },
    Topic {
        name: "environment",
        about: "the variables that are read",
        text: || ENVIRONMENT.to_owned(),
    },
    Topic { name: "exit-codes", about: "what a command exits with", text: surface::exit_codes },
    Topic {
        name: "man",
        about: "everything as a manual page: baton help man | man -l -",
        text: manual::page,
    },
];

const START: &str = "\
Baton hands out work under leases, keeps checkpoints, and accepts \"done\" only with proof.

  baton demo                       a short story with a server of its own; leaves nothing behind
  baton init                       set this repository up; shows every line before it writes any
  baton up --detach                server and worker in the background
  baton project add NAME --root .  what the worker may work on
  baton add \"…\" -P NAME --go       a task that is begun at once
  baton                            what needs you, what is at work, and the next command
  baton logs T-1 -f                what its agent says
  baton diff T-1                   what it changed
  baton explain T-1                why it does not go on, and the command that helps
  baton open                       the same in a browser
";

const FILTERS: &str = "\
Words with a name before a colon pick by what a task is, all others by what it says.

  is:blocked       how it is: see baton help states
  stage:qa         where it stands
  kind:bug         what sort of work it is
  label:api        with this label
  agent:ada        held by this principal
  for:bob          only for this principal
  in:T-12          part of this task

  baton ls is:needs-you stage:qa login
";

const STATES: &str = "\
draft                 nothing happens to it before it is published
waiting               in the backlog, or for another task
queued                ready: it waits for somebody to claim it
delayed               it waits for a time
running               an attempt holds it
silent                its holder does nothing but renew its lease
waiting for input     its agent asked something and waits
blocked               parked: baton explain says what would unpark it
needs you             it waits for a person
verifying             what was submitted is being checked
in merge queue        it waits to be merged
merge failed          it could not be merged
stopping              its agent is being stopped
stop unverified       nobody proved that its agent is dead
frozen, review        a person holds it back
failed                its last run failed
ended without result  its last run ended without a word
done                  done, with proof
done unverified       done, and no line of a contract was checked
abandoned, superseded, rejected, archived
";

const ENVIRONMENT: &str = "\
BATON_HOME          the data folder
BATON_URL           where the server is
BATON_SOCKET        where it is on this machine
BATON_KEY           your key; BATON_KEY_FILE names a file with it
BATON_CLAIM_TOKEN   which attempt calls
BATON_PROJECT       which project is meant where none is named
BATON_OUTPUT        text, json or jsonl
BATON_DATABASE_URL  a Postgres for the server; BATON_PEPPER_FILE is its pepper
BATON_BLOBS_DIR     where blobs are
NO_COLOR            no colours

A flag wins over a variable, a variable over a file, a file over the default:
baton config show --origin says which it was.
";

/// The command as the command line knows it.
pub(super) fn command() -> Command {
    let topics: Vec<_> =
        TOPICS.iter().map(|topic| format!("  {:<12} {}", topic.name, topic.about)).collect();
    Command::new(NAME)
        .about("Print the help of a command, or a page about a topic")
        .after_help(format!("Topics:\n{}", topics.join("\n")))
        .arg(
            Arg::new("word")
                .value_name("COMMAND|TOPIC")
                .num_args(0..)
                .help("Which command, or which topic"),
        )
}

/// Prints it.
pub(super) fn run(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let words: Vec<_> = asked.get_many::<String>("word").into_iter().flatten().collect();
    let topic = match words[..] {
        [word] => TOPICS.iter().find(|topic| topic.name == word.as_str()),
        _ => None,
    };
    let text = match topic {
        Some(topic) => (topic.text)(),
        None => help_of(&words)?,
    };
    upkeep::tell(session, &json!({ "text": text }), &text);
    Ok(0)
}

fn help_of(words: &[&String]) -> Result<String, Failure> {
    let mut root = tree::tree();
    root.build();
    let mut command = &mut root;
    for word in words {
        let known = command.find_subcommand(word.as_str()).is_some();
        if !known {
            let names: Vec<_> = TOPICS.iter().map(|topic| topic.name).collect();
            let detail = format!(
                "there is no command and no topic `{word}`; topics are {}",
                names.join(", ")
            );
            return Err(Problem::new("not_found", detail).next("baton help").into());
        }
        command = command.find_subcommand_mut(word.as_str()).expect("it was found");
    }
    Ok(command.render_long_help().to_string())
}
