//! `baton worktree`: the folders that agents work in on this machine. No server is asked.

use std::path::PathBuf;

use baton_domain::ids::{DeploymentId, TaskId, TenantId};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::{Value, json};

use crate::client::Failure;
use crate::problem::Problem;
use crate::worktree::{Error, Fate, Git, House, Listed, Pruned, State};

use super::{Session, USAGE, arguments, upkeep};

/// The command and its verbs.
pub(super) fn command(data: impl Fn() -> Arg) -> Command {
    let task = Arg::new("task").value_name("TASK").help("Which task, like T-128");
    let named = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let tenant = || named("tenant", "NAME", "Whose task it is").default_value("local");
    let deployment =
        || named("deployment", "ID", "Of which deployment, if this machine works for several");
    let yes = |help: &'static str| {
        Arg::new("yes").long("yes").short('y').action(ArgAction::SetTrue).help(help)
    };
    Command::new("worktree")
        .about("The folders that agents work in on this machine: list, restore, prune, release")
        .arg_required_else_help(true)
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("list")
                .about("List the folders that agents work in on this machine")
                .arg(deployment())
                .arg(data()),
        )
        .subcommand(
            Command::new("restore")
                .about("Bring the last snapshot of a task back into a new folder")
                .after_help("No worktree is touched. Without --yes it only says what it would do.")
                .arg(task.clone().required(true))
                .arg(
                    named("to", "DIR", "The folder; it must not exist")
                        .required(true)
                        .value_parser(value_parser!(PathBuf)),
                )
                .arg(
                    named("attempt", "NUMBER", "The last snapshot of this attempt instead")
                        .value_parser(value_parser!(u32)),
                )
                .arg(tenant())
                .arg(yes("Do it"))
                .arg(deployment())
                .arg(data()),
        )
        .subcommand(
            release_verb(task.clone().required(true))
                .arg(tenant())
                .arg(yes("Do it"))
                .arg(deployment())
                .arg(data()),
        )
        .subcommand(
            Command::new("prune")
                .about("Take away folders that no task needs; what no snapshot holds stays")
                .after_help(
                    "A folder goes after a snapshot that has read every file of it, and comes back with \
                     baton worktree restore. What git ignores, such as builds, goes with it. Without \
                     --yes it only says what would go.",
                )
                .arg(task.help("Only that of this task, also if it goes on"))
                .arg(tenant())
                .arg(yes("Do it"))
                .arg(deployment())
                .arg(data()),
        )
}

fn release_verb(task: Arg) -> Command {
    Command::new("release")
        .about("Lift a quarantine: you have looked, and nobody works in the folder any more")
        .after_help(
            "A folder is quarantined if the death of its agent is not proved, or if a snapshot cannot \
             hold everything in it; baton worktree list says why. Once lifted, the next attempt may go on \
             there, or it can be pruned. Without --yes it only says what it would do.",
        )
        .arg(task)
        .arg(
            Arg::new("generation")
                .long("generation")
                .value_name("NUMBER")
                .help("Only that folder of the task")
                .value_parser(value_parser!(u32)),
        )
}

/// Runs one of the verbs.
pub(super) async fn run(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let Some((verb, asked)) = asked.subcommand() else { return Ok(USAGE) };
    let folder = upkeep::folder(session, asked)?;
    let programs = session.around.programs.clone();
    let deployment: Option<DeploymentId> = parsed(asked, "deployment", |text| text.parse())?;
    let job = Job::read(verb, asked)?;
    // Git is waited for beside the runtime.
    let done = tokio::task::spawn_blocking(move || -> Result<(Value, String), Failure> {
        let git = Git::find(&programs).map_err(refused)?;
        let mut houses = House::all(&folder, &git).map_err(refused)?;
        houses.retain(|house| deployment.as_ref().is_none_or(|own| own == house.deployment()));
        job.done(&houses)
    });
    let broke = |_| Failure::from(Problem::new("internal", "it broke on the way"));
    let (body, text) = done.await.map_err(broke)??;
    upkeep::tell(session, &body, &text);
    Ok(0)
}

enum Job {
    List,
    Restore { tenant: TenantId, task: TaskId, attempt: Option<u32>, to: PathBuf, yes: bool },
    Release { tenant: TenantId, task: TaskId, generation: Option<u32>, yes: bool },
    Prune { tenant: TenantId, task: Option<TaskId>, yes: bool },
}

impl Job {
    fn read(verb: &str, asked: &ArgMatches) -> Result<Self, Failure> {
        if verb == "list" {
            return Ok(Self::List);
        }
        let tenant = parsed(asked, "tenant", |text| text.parse())?;
        let tenant = tenant.expect("it has a default");
        let task = parsed(asked, "task", |text| arguments::spelled("T-", text).parse())?;
        let yes = asked.get_flag("yes");
        if verb == "prune" {
            return Ok(Self::Prune { tenant, task, yes });
        }
        let task = task.expect("clap requires it");
        if verb == "release" {
            let generation = asked.get_one::<u32>("generation").copied();
            return Ok(Self::Release { tenant, task, generation, yes });
        }
        Ok(Self::Restore {
            tenant,
            task,
            attempt: asked.get_one::<u32>("attempt").copied(),
            to: asked.get_one::<PathBuf>("to").expect("clap requires it").clone(),
            yes,
        })
    }

    fn done(self, houses: &[House]) -> Result<(Value, String), Failure> {
        match self {
            Self::List => list(houses),
            Self::Restore { tenant, task, attempt, to, yes } => {
                restore(houses, &tenant, task, attempt, &to, yes)
            }
            Self::Release { tenant, task, generation, yes } => {
                release(houses, (&tenant, task), generation, yes)
            }
            Self::Prune { tenant, task, yes } => prune(houses, &tenant, task, yes),
        }
    }
}

/// A value of an argument, or a refusal that names it.
fn parsed<T>(
    asked: &ArgMatches,
    name: &str,
    read: impl Fn(&str) -> Result<T, baton_domain::Refusal>,
) -> Result<Option<T>, Failure> {
    let text = asked.try_get_one::<String>(name).ok().flatten();
    text.map(|text| read(text)).transpose().map_err(|refusal| {
        Problem::new("invalid", refusal.to_string()).next("baton worktree --help").into()
    })
}

pub(super) fn refused(error: Error) -> Failure {
    let code = match error {
        Error::NoWorktree(_) | Error::NoSnapshot(_) | Error::NoCommit(_) => "not_found",
        Error::Exists(_) => "name_taken",
        Error::InUse(_) => "in_use",
        Error::NoGit
        | Error::OldGit { .. }
        | Error::Git { .. }
        | Error::TooSlow { .. }
        | Error::TooMuch { .. }
        | Error::File { .. }
        | Error::NotARepository(_)
        | Error::Shallow(_)
        | Error::MissingBase(_)
        | Error::OtherBundle(_)
        | Error::Quarantined { .. }
        | Error::WorkspaceChanged(_)
        | Error::Setup { .. }
        | Error::TooManyCommands(_)
        | Error::BranchMoved { .. }
        | Error::CheckedOut { .. }
        | Error::DirtyCheckout { .. } => "internal",
    };
    Problem::new(code, error.to_string()).next(error.next()).into()
}

fn list(houses: &[House]) -> Result<(Value, String), Failure> {
    let (mut bodies, mut text) = (vec![], String::new());
    for house in houses {
        for one in house.list().map_err(refused)? {
            let path = one.path.display().to_string();
            let last = one
                .last
                .as_ref()
                .map(|(name, commit)| json!({ "ref": name, "commit": commit.as_str() }));
            bodies.push(json!({
                "deployment": house.deployment().as_str(), "tenant": one.key.tenant.as_str(),
                "task": one.key.task.to_string(), "generation": one.key.generation,
                "project": one.project, "state": word(&one.state), "why": why(&one.state),
                "in_use": one.in_use, "path": path, "snapshots": one.snapshots, "last": last,
            }));
            text.push_str(&line(&one));
        }
    }
    if text.is_empty() {
        text.push_str("No agent has a folder on this machine.\n");
    }
    Ok((json!({ "worktrees": bodies }), text))
}

fn line(one: &Listed) -> String {
    let state = match (one.in_use, why(&one.state)) {
        (true, _) => "in use".to_owned(),
        (false, Some(why)) => format!("quarantined: {why}"),
        (false, None) => word(&one.state).to_owned(),
    };
    let kept = match one.snapshots {
        1 => "1 snapshot".to_owned(),
        count => format!("{count} snapshots"),
    };
    let (task, generation) = (one.key.task.to_string(), one.key.generation);
    format!(
        "{task:<8} {generation:<3} {:<16} {kept:<13} {state}\n{:<13}{}\n",
        one.project,
        "",
        one.path.display()
    )
}

fn word(state: &State) -> &'static str {
    match state {
        State::Making => "being made",
        State::Ready => "ready",
        State::Over => "over",
        State::Quarantined { .. } => "quarantined",
    }
}

fn why(state: &State) -> Option<&str> {
    match state {
        State::Quarantined { why } => Some(why),
        State::Making | State::Ready | State::Over => None,
    }
}

fn restore(
    houses: &[House],
    tenant: &TenantId,
    task: TaskId,
    attempt: Option<u32>,
    to: &std::path::Path,
    yes: bool,
) -> Result<(Value, String), Failure> {
    let mut found = vec![];
    for house in houses {
        match house.last_snapshot(tenant, task, attempt) {
            Ok(last) => found.push((house, last.name, last.commit)),
            Err(Error::NoSnapshot(_)) => {}
            Err(error) => return Err(refused(error)),
        }
    }
    let (house, name, commit) = match found.len() {
        0 => return Err(refused(Error::NoSnapshot(task.to_string()))),
        1 => found.remove(0),
        _ => {
            let detail = format!("several deployments have snapshots of {task} here");
            let next = "the same command with --deployment ID: see baton worktree list";
            return Err(Problem::new("malformed", detail).next(next).into());
        }
    };
    let place = to.display().to_string();
    let mut text = format!("{name} ({commit})\n");
    if yes {
        house.restore(tenant, task, attempt, to).map_err(refused)?;
        text.push_str(&format!(
            "is in {place} now. git status, there, shows what is not committed.\n"
        ));
    } else if to.symlink_metadata().is_ok() {
        return Err(refused(Error::Exists(to.to_path_buf())));
    } else {
        text.push_str(&format!(
            "would be brought back into {place}. Nothing was done: --yes does it.\n"
        ));
    }
    let body = json!({ "ref": name, "commit": commit.as_str(), "to": place, "done": yes });
    Ok((body, text))
}

fn release(
    houses: &[House],
    (tenant, task): (&TenantId, TaskId),
    generation: Option<u32>,
    yes: bool,
) -> Result<(Value, String), Failure> {
    let (mut bodies, mut text) = (vec![], String::new());
    for house in houses {
        for one in house.release((tenant, task), generation, yes).map_err(refused)? {
            let path = one.path.display().to_string();
            text.push_str(&format!(
                "{:<8} {:<3} was quarantined: {}\n{:<13}{path}\n",
                task.to_string(),
                one.key.generation,
                one.why,
                ""
            ));
            bodies.push(json!({
                "deployment": house.deployment().as_str(), "tenant": tenant.as_str(),
                "task": task.to_string(), "generation": one.key.generation, "path": path,
                "why": one.why,
            }));
        }
    }
    if text.is_empty() {
        text.push_str("Nothing of that task is quarantined.\n");
    } else if !yes {
        text.push_str("Nothing was done: --yes does it, once you know that nobody works there.\n");
    }
    Ok((json!({ "worktrees": bodies, "done": yes }), text))
}

fn prune(
    houses: &[House],
    tenant: &TenantId,
    task: Option<TaskId>,
    yes: bool,
) -> Result<(Value, String), Failure> {
    let (mut bodies, mut text) = (vec![], String::new());
    for house in houses {
        let pruned = house.prune(task.map(|task| (tenant, task)), yes).map_err(refused)?;
        for one in pruned {
            bodies.push(json!({
                "deployment": house.deployment().as_str(), "tenant": one.key.tenant.as_str(),
                "task": one.key.task.to_string(), "generation": one.key.generation,
                "path": one.path.display().to_string(), "fate": fate(&one, yes),
            }));
            let (task, generation) = (one.key.task.to_string(), one.key.generation);
            text.push_str(&format!("{task:<8} {generation:<3} {}\n", fate(&one, yes)));
        }
    }
    if text.is_empty() {
        text.push_str("There is nothing to take away.\n");
    } else if !yes {
        text.push_str("Nothing was done: --yes does it.\n");
    }
    Ok((json!({ "worktrees": bodies, "done": yes }), text))
}

fn fate(one: &Pruned, yes: bool) -> String {
    match &one.fate {
        Fate::Gone(Some(name)) => format!("gone; {name} holds it"),
        Fate::Gone(None) if yes => "gone; nobody had worked in it".to_owned(),
        Fate::Gone(None) => "would go, once a snapshot holds it".to_owned(),
        Fate::InUse => "stays: in use".to_owned(),
        Fate::Needed => "stays: its task goes on".to_owned(),
        Fate::Quarantined(why) => format!("stays: quarantined, {why}"),
    }
}

#[cfg(test)]
mod tests;
