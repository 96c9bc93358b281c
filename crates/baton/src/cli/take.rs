//! `baton take`: a person takes a task over, in the folder that its agent worked in.
//!
//! Nobody may write there besides: the task is frozen first, so that nobody claims it, then its agent is stopped and its
//! death awaited, and the folder's lock is held for as long as the shell is open.

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_domain::ids::{TaskId, TenantId};
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value, json};

use crate::adapters::Program;
use crate::client::Failure;
use crate::problem::Problem;
use crate::protocol::Conversation;
use crate::worktree::{Error, Git, Held, House, State, Worktree, of_task, plain};

use super::arguments::spelled;
use super::render::clean::line;
use super::worktrees::refused;
use super::{Output, Session, render, wait, work};

/// What people type.
pub(super) const NAME: &str = "take";
/// Why the task is held back and its agent stopped, as history has it.
const REASON: &str = "taken over by a person";
/// How often a folder is tried that its worker has not let go of yet: for ten seconds.
const TRIES_MAX: u32 = 50;
/// How long between two tries.
const TRY_AGAIN: Duration = Duration::from_millis(200);
/// Folders of one task that are looked for: more than any task has.
const GENERATIONS_MAX: u32 = 64;

/// The command as the command line knows it.
pub(super) fn command() -> Command {
    Command::new(NAME)
        .about("Take a task over: stop its agent, and open its folder in a shell")
        .after_help(
            "The task is frozen, so that nobody claims it; its agent is stopped and proved dead; then a shell opens in \
             its folder, which must be on this machine. `baton task unfreeze` gives it back, with what is in the folder.",
        )
        .arg(Arg::new("task").value_name("TASK").required(true).help("Which task"))
        .arg(
            Arg::new("print")
                .long("print")
                .action(ArgAction::SetTrue)
                .help("Print where it is and how its agent is resumed, and open nothing"),
        )
}

/// Takes it over.
pub(super) async fn run(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let id = asked.get_one::<String>("task").map(|id| spelled("T-", id)).unwrap_or_default();
    let task = session.asked(("task", "show"), [("task", id.as_str().into())]).await?;
    let number: TaskId = task["id"].as_str().unwrap_or_default().parse().map_err(|_| {
        Failure::from(Problem::new("internal", "the server names a task in no way that is known"))
    })?;
    let frozen = task["holds"].as_array().is_some_and(|holds| holds.contains(&json!("frozen")));
    if !frozen {
        let freeze = [("task", id.as_str().into()), ("reason", REASON.into())];
        session.asked(("task", "freeze"), freeze).await?;
    }
    release(session, &id).await?;
    let folder = work::folder(session)?;
    let programs = session.around.programs.clone();
    let looked = tokio::task::spawn_blocking(move || find(&folder, &programs, number));
    let broke = |_| Failure::from(Problem::new("internal", "it broke on the way"));
    let found = looked.await.map_err(broke)??;
    let resume = resume(session, &id, &found.home).await?;
    let _held = hold(&found.worktree).await?;
    let path = found.worktree.path();
    tell(session, &id, &path, resume.as_deref());
    if asked.get_flag("print") || session.globals.output != Output::Text {
        return Ok(0);
    }
    let shell = session.around.variables.0.get("SHELL").cloned();
    let shell = shell.unwrap_or_else(|| "/bin/sh".to_owned());
    let ended = tokio::process::Command::new(&shell).current_dir(&path).status().await;
    ended.map_err(|error| Failure::from(Problem::new("internal", format!("{shell}: {error}"))))?;
    session.whisper(&format!(
        "next: baton task unfreeze {id} --reason \"…\"    gives it to the next agent, with what is in the folder\n"
    ));
    Ok(0)
}

/// Takes the run from whoever holds it, and waits until that one is gone.
async fn release(session: &mut Session<'_>, id: &str) -> Result<(), Failure> {
    let mut asked = false;
    loop {
        let task = session.asked(("task", "show"), [("task", id.into())]).await?;
        if !task["run"]["attempt"].is_string() {
            return Ok(());
        }
        if !asked {
            session.whisper(&format!("{id}  its agent is being stopped\n"));
            let release = [("run", id.into()), ("reason", REASON.into())];
            match session.asked(("run", "force-release"), release).await {
                // It ended meanwhile, or is being stopped already.
                Err(failure) if ["no_run", "wrong_state"].contains(&failure.code()) => {}
                other => drop(other?),
            }
            asked = true;
        }
        wait::change(session, id, &task).await?;
    }
}

struct Found {
    worktree: Worktree,
    /// Where its agent was at home.
    home: PathBuf,
}

fn find(data: &Path, programs: &[PathBuf], task: TaskId) -> Result<Found, Failure> {
    let git = Git::find(programs).map_err(refused)?;
    let tenant: TenantId = "local".parse().expect("it is a name");
    for house in House::all(data, &git).map_err(refused)? {
        let Some(worktree) = house.newest(&tenant, task, GENERATIONS_MAX).map_err(refused)? else {
            continue;
        };
        if let State::Quarantined { why } = worktree.state() {
            let detail = format!("its folder is closed: {why}");
            let next = format!("baton worktree release {task}");
            return Err(Problem::new("in_use", detail).next(next).into());
        }
        let homes = data.join("worker").join(plain(house.deployment().as_str())).join("homes");
        let home = homes.join(of_task(&tenant, task)).join("home");
        return Ok(Found { worktree, home });
    }
    let detail = format!("no agent has worked on {task} in a folder on this machine");
    Err(Problem::new("not_found", detail).next("baton worktree list").into())
}

/// The right to work there. A worker lets go of it a moment after its agent is gone.
async fn hold(worktree: &Worktree) -> Result<Held, Failure> {
    for _ in 1..TRIES_MAX {
        match worktree.hold() {
            Err(Error::InUse(_)) => tokio::time::sleep(TRY_AGAIN).await,
            other => return other.map_err(refused),
        }
    }
    worktree.hold().map_err(refused)
}

/// How the agent's own conversation is gone on with, if it has one.
async fn resume(session: &Session<'_>, id: &str, home: &Path) -> Result<Option<String>, Failure> {
    let asked = [("task", id.into()), ("limit", 500.into())];
    let page = session.asked(("checkpoint", "list"), asked).await?;
    let notes = page["items"].as_array().map_or(&[][..], Vec::as_slice);
    let kept = |note: &Value| Conversation::read(note["git"][Conversation::KEPT_AS].as_str()?);
    let Some(talk) = notes.iter().rev().find_map(kept) else { return Ok(None) };
    let (id, home) = (line(talk.id.as_str()), home.display());
    let words = match Program::of(talk.program.as_str()) {
        Some(Program::Claude) => format!("claude --resume {id}"),
        Some(Program::Codex | Program::CodexExec) => format!("codex resume {id}"),
        Some(Program::Gemini) => format!("gemini --resume {id}"),
        Some(Program::Opencode) => format!("opencode --session {id}"),
        Some(Program::Acp | Program::Command | Program::Script) | None => return Ok(None),
    };
    Ok(Some(format!("HOME={home} {words}")))
}

fn tell(session: &mut Session<'_>, id: &str, path: &Path, resume: Option<&str>) {
    if session.globals.quiet {
        return;
    }
    let text = match session.globals.output {
        Output::Json | Output::JsonLines => {
            render::json(&json!({ "task": id, "path": path, "resume": resume }))
        }
        Output::Text => {
            let agent = resume.map_or(String::new(), |resume| format!("agent   {resume}\n"));
            format!(
                "{id} is yours: nobody claims it while it is frozen\nfolder  {}\n{agent}",
                path.display()
            )
        }
    };
    session.say(&text);
}
