//! `baton uninstall`: takes back what Baton put on this machine, after saying so.

use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::json;

use crate::client::Failure;
use crate::init::{self, Step};
use crate::problem::Problem;

use super::{Session, background, upkeep, work};

/// What people type.
pub(super) const NAME: &str = "uninstall";

/// The command as the command line knows it.
pub(super) fn command() -> Command {
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    Command::new(NAME)
        .about("Take back what Baton put here: what `init` wrote, and the data if you say so")
        .after_help(
            "Without --yes it only says what it would do. The data folder holds every task, all history and all work \
             of agents that was not merged: it stays unless --data is given.",
        )
        .arg(flag("yes").short('y').help("Do it"))
        .arg(flag("data").help("The data folder, too"))
}

/// Says it, and does it if that is wanted.
pub(super) async fn run(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let failed = |error: &dyn std::error::Error| -> Failure {
        Problem::new("internal", error.to_string()).into()
    };
    let here = std::env::current_dir().map_err(|error| failed(&error))?;
    let root = init::root(&here);
    let plan = init::plan_back(&root).map_err(|error| failed(&error))?;
    let folder = work::folder(session)?;
    if background::runs(session, &folder).await {
        let detail = format!("a server or a worker uses {}", folder.display());
        return Err(Problem::new("in_use", detail).next("baton down").into());
    }
    let (yes, data) = (asked.get_flag("yes"), asked.get_flag("data"));
    let files: Vec<_> = plan
        .changes
        .iter()
        .filter(|change| !matches!(change.step, Step::Keep | Step::Leave(_)))
        .map(|change| change.path.to_string())
        .collect();
    let data_there = folder.exists();
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    if yes {
        if !files.is_empty() {
            plan.carry_out(&root).map_err(|error| failed(&error))?;
        }
        if data && data_there {
            std::fs::remove_dir_all(&folder).map_err(|error| failed(&error))?;
        }
    }
    let body = json!({
        "files": files, "data": folder, "removes_data": data && data_there, "program": program, "done": yes,
    });
    let text = text(&root, &files, (&folder, data_there, data), &program, yes);
    upkeep::tell(session, &body, &text);
    Ok(0)
}

fn text(
    root: &Path,
    files: &[String],
    (folder, there, data): (&Path, bool, bool),
    program: &Path,
    yes: bool,
) -> String {
    let mut text = match files {
        [] => format!("here     nothing of `baton init` is in {}\n", root.display()),
        files => format!("here     {} in {}\n", files.join(", "), root.display()),
    };
    let fate = match (there, data) {
        (false, _) => "is not there",
        (true, true) => "goes, with all tasks and history",
        (true, false) => "stays: --data removes it",
    };
    text.push_str(&format!("data     {} {fate}\n", folder.display()));
    text.push_str(&format!("program  rm {}\n", program.display()));
    text.push_str(match yes {
        true => "done; other repositories: baton uninstall there\n",
        false => "nothing was done: --yes does it\n",
    });
    text
}
