//! Commands that no server answers: copies, the walk of the chains, the examination of this
//! machine, completions, the demo and the bench.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_domain::text::{Reason, Text};
use baton_store::chain::{Audit, SigningKey};
use baton_store::postgres::backup::Error;
use baton_store::sqlite::backup::{self, Restoring};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::{Value, json};

use crate::chance::{Chance as _, SystemChance};
use crate::client::Failure;
use crate::identity::{How, Identity};
use crate::problem::Problem;
use crate::scripted::{self, COMMAND};
use crate::tokens::secret_file;
use crate::{bench, demo, home, mcp, operations};

use super::{Output, Session, completions, contracts, doctor, render, setup, worktrees};

mod blobs;
mod elsewhere;

/// The commands.
pub(super) fn commands() -> Vec<Command> {
    let file = |help: &'static str| {
        Arg::new("file")
            .value_name("FILE")
            .required(true)
            .help(help)
            .value_parser(value_parser!(PathBuf))
    };
    let data = || {
        let help = "The data folder; the usual one if it is left out (BATON_HOME)";
        let data = Arg::new("data").long("data").value_name("DIR");
        data.help(help).value_parser(value_parser!(PathBuf))
    };
    vec![
        Command::new("serve")
            .about("Run the server in the foreground: see baton serve --help")
            .disable_help_flag(true),
        mcp_command(),
        Command::new("doctor")
            .about("Look for everything that can be wrong here, and say how to put it right")
            .arg(data()),
        backup_command(file("Where the copy goes; it must not exist"), data()),
        restore_command(file("The copy"), data()),
        Command::new("audit")
            .about("Prove that history was not changed")
            .arg_required_else_help(true)
            .subcommand_required(true)
            .disable_help_subcommand(true)
            .subcommand(
                Command::new("verify")
                    .about(
                        "Walk every chain and every seal, and name the first thing that is wrong",
                    )
                    .arg(data()),
            ),
        worktrees::command(data),
        contracts::command(),
        completions::command(),
        completions::words_command(),
        Command::new("demo")
            .about("Play a short story with a server of its own, and leave nothing behind"),
        bench_command(),
        Command::new(COMMAND)
            .about("Be the agent that does what a file of steps says: see docs/guides/agents.md")
            .hide(true)
            .arg(file("The steps")),
    ]
}

fn backup_command(file: Arg, data: Arg) -> Command {
    Command::new("backup")
        .about("Copy the database while it is in use; the copy is checked before it is named")
        .after_help(
            "Blobs are copied into a folder beside it, FILE.blobs. The pepper and the sealing key are \
             not in it: keep copies of them apart.",
        )
        .arg(file)
        .arg(data)
        .arg(blobs::place_flag())
}

fn restore_command(file: Arg, data: Arg) -> Command {
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    Command::new("restore")
        .about("Bring a copy back; what is there is moved aside, claim tokens and keys die")
        .after_help(
            "All keys are revoked: the copy does not know which were revoked after it was made. The \
             next `baton serve` makes a new one for you. Blobs in FILE.blobs come back, too; those \
             that are there stay.",
        )
        .arg(file.required(false).required_unless_present("here"))
        .arg(
            flag("here")
                .conflicts_with("file")
                .help("What is there came back or was copied by other means: give it another life"),
        )
        .arg(flag("keep-keys").help("Leave the keys as they were that day"))
        .arg(data)
        .arg(blobs::place_flag())
}

fn mcp_command() -> Command {
    Command::new("mcp")
        .about("Speak MCP over stdio, for an agent program that starts it")
        .after_help(
            "It asks the server that every other command asks, as an agent of its own: two programs never \
             share a run. While its client lives it renews what was claimed; when stdin ends, that ends \
             without a result. Nothing but the protocol goes to stdout.",
        )
        .arg(
            Arg::new("toolset")
                .long("toolset")
                .value_name("WHICH")
                .value_parser(["run", "all"])
                .default_value("run")
                .help("What a run needs, or everything"),
        )
}

fn bench_command() -> Command {
    let numbers = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_delimiter(',')
            .value_parser(value_parser!(u64).range(1..=10_000_000))
            .default_value(default)
            .help(help)
    };
    Command::new("bench")
        .about("Measure the store beside its limits, all in one run")
        .arg(
            Arg::new("store")
                .long("store")
                .value_parser(["sqlite", "postgres"])
                .default_value("sqlite")
                .help(
                    "Which store; postgres is measured in the empty database of BATON_DATABASE_URL",
                ),
        )
        .arg(numbers("callers", "1,4,16,64", "How many callers at once"))
        .arg(numbers("cycles", "40000", "Claim-and-complete cycles per measurement"))
        .arg(numbers("finished", "10000,100000", "Finished tasks to measure beside"))
        .arg(
            Arg::new("agents")
                .long("agents")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..=256))
                .help("Instead, what so many idle agents cost worker and shims, per agent"),
        )
        .arg(Arg::new("probe").long("probe").hide(true).value_parser(value_parser!(PathBuf)))
        .arg(Arg::new("empty-post").long("empty-post").hide(true).action(ArgAction::SetTrue))
}

/// Runs one of them.
pub(super) async fn dispatch(
    session: &mut Session<'_>,
    name: &str,
    asked: &ArgMatches,
) -> Result<u8, Failure> {
    match name {
        "serve" => {
            let detail = "`serve` comes first, then its flags";
            Err(Problem::new("malformed", detail).next("baton serve --help").into())
        }
        "mcp" => {
            let client = session.globals.client(session.around)?;
            let word = asked.get_one::<String>("toolset").map_or("run", String::as_str);
            mcp::stdio::run(client, mcp::Toolset::of(word).unwrap_or_default()).await
        }
        "init" => setup::run(session, asked),
        "prime" => setup::prime::run(session, asked).await,
        "doctor" => doctor::run(session, asked).await,
        "backup" => back_up(session, asked).await,
        "restore" => restore(session, asked).await,
        "audit" => match asked.subcommand() {
            Some((_, asked)) => verify(session, asked).await,
            None => Ok(super::USAGE),
        },
        "worktree" => worktrees::run(session, asked).await,
        "contract" => contracts::run(session, asked).await,
        "completions" => Ok(completions::print(session, asked)),
        "complete-words" => completions::words(session, asked).await,
        "demo" => {
            let database = session.around.database_url.clone();
            match demo::run(database, &mut session.streams.out).await {
                Ok(end) => Ok(end.exit()),
                Err(demo::Failure::Database(Error::NotEmpty)) => Err(Problem::new(
                    "name_taken",
                    "a demo plays in an empty database, and BATON_DATABASE_URL names another",
                )
                .next("env -u BATON_DATABASE_URL baton demo")
                .into()),
                Err(demo::Failure::Database(error)) => Err(elsewhere::refused(&error)),
                Err(error) => Err(broke(&error)),
            }
        }
        "bench" => measure(session, asked).await,
        COMMAND => {
            let client = session.globals.client(session.around)?;
            let steps = asked.get_one::<PathBuf>("file").expect("clap requires it");
            Ok(scripted::run(steps, &client, &mut *session.streams.out).await)
        }
        _ => Ok(super::USAGE),
    }
}

async fn measure(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let numbers =
        |name: &str| -> Vec<u64> { asked.get_many(name).into_iter().flatten().copied().collect() };
    let plan = bench::Plan {
        callers: numbers("callers"),
        cycles: numbers("cycles").first().copied().unwrap_or(1),
        finished: numbers("finished"),
    };
    let out = &mut session.streams.out;
    if asked.get_flag("empty-post") {
        return bench::serve_nothing(out).await.map(|()| 0).map_err(|error| broke(&error));
    }
    if let Some(count) = asked.get_one::<u64>("agents") {
        return bench::run_agents(*count, out).await.map(|()| 0).map_err(|error| broke(&error));
    }
    let on_postgres = asked.get_one::<String>("store").is_some_and(|store| store == "postgres");
    let done = match (asked.get_one::<PathBuf>("probe"), &session.around.database_url) {
        (Some(folder), _) => bench::answer_probe(folder, out).await,
        (None, Some(url)) if on_postgres => bench::run_on_postgres(&plan, url.reveal(), out).await,
        (None, None) if on_postgres => {
            let detail = "which database is to be measured? BATON_DATABASE_URL does not say";
            let next = "BATON_DATABASE_URL=postgres://… baton bench --store postgres";
            return Err(Problem::new("malformed", detail).next(next).into());
        }
        (None, _) => bench::run(&plan, out).await,
    };
    done.map(|()| 0).map_err(|error| broke(&error))
}

fn broke(error: &dyn std::error::Error) -> Failure {
    Problem::new("internal", error.to_string()).into()
}

/// The data folder that is meant.
pub(super) fn folder(session: &Session<'_>, asked: &ArgMatches) -> Result<PathBuf, Failure> {
    let said = asked.get_one::<PathBuf>("data").cloned();
    said.or_else(|| session.around.folder()).ok_or_else(|| {
        let detail = "neither BATON_HOME nor HOME says where the data folder is";
        Problem::new("malformed", detail).next("the same command with --data DIR").into()
    })
}

/// The key that seals are checked with, if this folder has one. Looking must not make one.
fn trusted(folder: &Path) -> Result<Option<[u8; 32]>, Failure> {
    let path = folder.join("seal.key");
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let secret = secret_file(&path, &SystemChance).map_err(|error| {
        Failure::from(Problem::new("internal", error.to_string()).next("baton doctor"))
    })?;
    Ok(Some(SigningKey::from_bytes(&secret).verifying_key().to_bytes()))
}

fn refused(error: &backup::Error) -> Failure {
    let problem = |code: &str| Problem::new(code, error.to_string());
    match error {
        backup::Error::Exists(_) => problem("name_taken"),
        backup::Error::NoDatabase(_) => problem("not_found").next("baton doctor"),
        backup::Error::Open(baton_store::sqlite::OpenError::InUse(_)) => {
            problem("in_use").next("stop `baton serve`, then run this again")
        }
        backup::Error::Open(_) | backup::Error::Damaged(_) | backup::Error::Io(..) => {
            problem("internal").next("baton doctor")
        }
        backup::Error::Fault { .. } => problem("internal").next("baton audit verify"),
    }
    .into()
}

async fn back_up(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let folder = folder(session, asked)?;
    let to = asked.get_one::<PathBuf>("file").expect("clap requires it");
    let beside = blobs::Beside::new(to, blobs::place(session, asked, &folder));
    beside.is_free()?;
    let audit = match session.around.database() {
        Some(named) => elsewhere::back_up(&named, &folder, to).await?,
        None => {
            let audit = backup::back_up(&folder, to, trusted(&folder)?.as_ref());
            audit.map_err(|error| refused(&error))?
        }
    };
    // Elsewhere seals are signed with a key that is derived from the pepper.
    let secrets = match session.around.database_url {
        Some(_) => "The pepper is not in it: keep a copy of it apart.",
        None => "The pepper and seal.key are not in it: keep copies of them apart.",
    };
    // After the database: what a record refers to was there before the record.
    let blobs = beside.back_up()?;
    let shown = to.display().to_string();
    let body = json!({
        "file": shown, "entries": audit.entries, "seals": audit.seals, "blobs": blobs.body(),
    });
    let text = format!(
        "{shown} is a whole copy: {}.\n{}{secrets}\n",
        whole(&audit),
        blobs.told("are copied into")
    );
    tell(session, &body, &text);
    Ok(u8::from(blobs.is_damaged()))
}

/// Why keys of a copy are revoked.
const RESTORED: &str = "the database is a restored copy, and it is not known who was let out since";

async fn restore(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let folder = folder(session, asked)?;
    let file = asked.get_one::<PathBuf>("file");
    let place = blobs::place(session, asked, &folder);
    let beside = file.map(|file| blobs::Beside::new(file, place));
    if let Some(named) = session.around.database() {
        let keep_keys = asked.get_flag("keep-keys");
        let file = file.map(PathBuf::as_path).zip(beside.as_ref());
        return elsewhere::restore(session, &named, &folder, file, keep_keys).await;
    }
    // What is there is a copy like any other, and comes back in its own place.
    let file = file.cloned().unwrap_or_else(|| folder.join("baton.db"));
    let mut chance: baton_store::sqlite::Chance = Box::new(|bytes| SystemChance.fill(bytes));
    let begun = Restoring::begin(&file, &folder, &mut chance, trusted(&folder)?.as_ref());
    let begun = begun.map_err(|error| refused(&error))?;
    let revoked = match asked.get_flag("keep-keys") {
        true => None,
        false => Some(revoke_all(begun.draft()).await?),
    };
    // Before the database: what a record refers to is there before the record.
    let blobs = beside.map(|beside| beside.bring_back()).transpose()?.unwrap_or_default();
    let restored = begun.finish().map_err(|error| refused(&error))?;
    let aside = restored.aside.as_deref().map(|path| path.display().to_string());
    let incarnation = format!("{:x}", restored.incarnation);
    let body = json!({
        "data": folder.display().to_string(), "incarnation": incarnation, "keys_revoked": revoked,
        "entries": restored.audit.entries, "seals": restored.audit.seals, "aside": aside,
        "blobs": blobs.body(),
    });
    let mut text = format!(
        "{} holds the copy as life {incarnation}: {}.\n\
         Claim tokens and cursors from before are dead.\n",
        folder.display(),
        whole(&restored.audit)
    );
    text.push_str(&match revoked {
        Some(count) => format!(
            "{count} {} revoked: the copy does not know which were since then. `serve` makes a new \
             key for you; --keep-keys would have left them.\n",
            if count == 1 { "key was" } else { "keys were" }
        ),
        None => "Keys are those of that day, also those that were revoked later: see baton key \
                 list.\n"
            .to_owned(),
    });
    text.push_str(&blobs.told("came back from"));
    if let Some(aside) = aside {
        text.push_str(&format!("What was there before is in {aside}.\n"));
    }
    text.push_str("next: baton serve\n");
    tell(session, &body, &text);
    Ok(0)
}

/// Revokes every key of a copy before it comes back.
async fn revoke_all(copy: &Path) -> Result<usize, Failure> {
    let chance = Arc::new(SystemChance);
    let engine = home::open_copy(copy, chance.clone()).map_err(|error| broke(&error))?;
    revoke(&Arc::new(Identity::new(Arc::new(engine), chance, operations::scopes()))).await
}

async fn revoke(identity: &Arc<Identity>) -> Result<usize, Failure> {
    let origin = Text::new("origin", "restore").expect("a plain word is a text");
    let how = How { origin, trace: None, request: None };
    let reason = Reason::new("reason", RESTORED).expect("a plain sentence is a reason");
    let revoked = identity.revoke_all(&how, &reason).await;
    revoked.map_err(|error| Problem::from(error).into())
}

async fn verify(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let folder = folder(session, asked)?;
    let (audit, signed) = match session.around.database() {
        Some(named) => elsewhere::verify(&named, &folder).await?,
        None => {
            let trusted = trusted(&folder)?;
            let audit = backup::verify(&folder, trusted.as_ref());
            (audit.map_err(|error| refused(&error))?, trusted.is_some())
        }
    };
    let (body, text) = verdict(&audit, signed);
    tell(session, &body, &text);
    Ok(u8::from(audit.fault.is_some()))
}

fn verdict(audit: &Audit, signed: bool) -> (Value, String) {
    let body = |fault: Value| json!({ "entries": audit.entries, "seals": audit.seals, "seals_checked": signed, "fault": fault });
    match &audit.fault {
        Some(fault) => {
            let what = json!({
                "tenant": fault.tenant, "position": fault.position, "what": fault.what,
            });
            let text = format!(
                "wrong: {}, in tenant {} at position {}\nEntries before it that hold: {}\n\
                 next: keep the folder as it is, and compare it with a copy (baton restore FILE \
                 --data ELSEWHERE)\n",
                fault.what, fault.tenant, fault.position, audit.entries
            );
            (body(what), text)
        }
        None => {
            let unsigned = "Seals were not checked: there is no seal.key here.\n";
            let text = format!(
                "History is whole: {}.\n{}",
                whole(audit),
                if signed { "" } else { unsigned }
            );
            (body(Value::Null), text)
        }
    }
}

/// How much of a history holds.
fn whole(audit: &Audit) -> String {
    let word = |count, one, many| if count == 1 { one } else { many };
    let Audit { entries, seals, .. } = audit;
    let (of_entries, of_seals) =
        (word(*entries, "entry", "entries"), word(*seals, "seal", "seals"));
    format!("{entries} {of_entries} and {seals} {of_seals} hold")
}

/// Prints what was done, in the form that was asked for.
pub(super) fn tell(session: &mut Session<'_>, body: &Value, text: &str) {
    if session.globals.quiet {
        return;
    }
    match session.globals.output {
        Output::Text => session.say(&render::clean::lines(text)),
        Output::Json | Output::JsonLines => session.say(&render::json(body)),
    }
}

#[cfg(test)]
mod tests {
    use baton_store::chain::{Audit, Fault};

    use super::verdict;

    #[test]
    fn the_first_wrong_thing_is_named_with_its_place() {
        let what = "the payload was changed";
        let fault = Some(Fault { tenant: "local".into(), position: 7, what });
        let (body, text) = verdict(&Audit { entries: 6, seals: 1, fault, ended: false }, true);
        assert_eq!((&body["fault"]["position"], &body["entries"]), (&7.into(), &6.into()));
        let first = text.lines().next();
        assert_eq!(first, Some("wrong: the payload was changed, in tenant local at position 7"));
    }
}
