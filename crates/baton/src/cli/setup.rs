//! `baton init` and `baton prime`: Baton in a repository, and in the head of an agent.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::{Value, json};

use crate::client::Failure;
use crate::init::{self, AGENTS, Agent, Change, Plan, Step};
use crate::problem::Problem;

use super::{Output, Session, USAGE, render};

pub(super) mod prime;

/// Something is left as it is although it is not as it should be.
const LEFT: u8 = 5;

/// The commands.
pub(super) fn commands() -> Vec<Command> {
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    vec![
        Command::new("init")
            .about("Set this repository up for the agent programs that are found, after asking")
            .after_help(
                "It shows every line before it writes any, and commits nothing. What it put \
                 somewhere is marked, and `baton init --remove` takes it all back.",
            )
            .arg(flag("dry-run").help("Show what would be done, and do nothing"))
            .arg(flag("yes").short('y').help("Do not ask"))
            .arg(flag("remove").help("Take back everything that was put here"))
            .arg(
                Arg::new("agent")
                    .long("agent")
                    .value_name("NAME")
                    .action(ArgAction::Append)
                    .value_parser(AGENTS.map(Agent::name))
                    .help("Set it up for this agent program, found or not; repeatable"),
            )
            .arg(
                Arg::new("dir")
                    .long("dir")
                    .value_name("DIR")
                    .value_parser(value_parser!(PathBuf))
                    .help("Another folder than this one"),
            ),
        Command::new("prime")
            .about("Print what an agent must know here, in at most 60 lines")
            .after_help("For the start of a conversation: hooks of agent programs run it.")
            .arg(flag("hook").help("Print it as the answer of a hook that runs at a start")),
    ]
}

/// Sets a repository up, or takes that back.
pub(super) fn run(session: &mut Session<'_>, asked: &ArgMatches) -> Result<u8, Failure> {
    let here = match asked.get_one::<PathBuf>("dir") {
        Some(folder) => folder.clone(),
        None => std::env::current_dir().map_err(|error| failed(&error))?,
    };
    let root = init::root(&here);
    let scene = Scene::look(session, asked, &root);
    let removing = asked.get_flag("remove");
    let plan = if removing {
        init::plan_back(&root)
    } else {
        init::plan(&root, &init::pieces(&scene.project, &scene.agents, scene.git))
    };
    let plan = plan.map_err(|error| failed(&error))?;
    let exit = if plan.leaves() { LEFT } else { 0 };
    let dry = asked.get_flag("dry-run");
    if session.globals.output == Output::Text {
        session.tell(&shown(&scene, &plan, removing));
    }
    let idle = plan.is_done();
    if !dry && !idle && !asked.get_flag("yes") {
        match agreed(session)? {
            true => {}
            false => return Ok(USAGE),
        }
    }
    let body = scene.body(&plan, !dry && !idle);
    let count = plan.changes.iter().filter(|change| is_done(change)).count();
    if !dry && !idle {
        plan.carry_out(&root).map_err(|error| failed(&error))?;
    }
    match session.globals.output {
        Output::Json | Output::JsonLines => session.tell(&render::json(&body)),
        Output::Text if dry => session.tell("nothing was done: --dry-run\n"),
        Output::Text if idle => session.tell("there is nothing to do\n"),
        Output::Text => session.tell(&scene.ended(count, removing)),
    }
    Ok(exit)
}

fn is_done(change: &Change) -> bool {
    !matches!(change.step, Step::Keep | Step::Leave(_))
}

fn failed(error: &dyn std::error::Error) -> Failure {
    Problem::new("internal", error.to_string()).into()
}

/// Whether whoever sits there agrees.
fn agreed(session: &mut Session<'_>) -> Result<bool, Failure> {
    let stdin = std::io::stdin();
    if session.globals.no_input || !stdin.is_terminal() {
        let detail = "this writes files, and nobody is there to agree";
        let problem = Problem::new("malformed", detail).next("baton init --yes");
        return Err(problem.next("baton init --dry-run").into());
    }
    session.tell("Go on? [y/N] ");
    let mut line = String::new();
    drop(stdin.lock().read_line(&mut line));
    Ok(["y", "yes"].contains(&line.trim().to_lowercase().as_str()))
}

impl Session<'_> {
    fn tell(&mut self, text: &str) {
        if !self.globals.quiet {
            self.say(text);
        }
    }
}

/// What is so here.
struct Scene {
    project: String,
    agents: Vec<Agent>,
    git: bool,
}

impl Scene {
    fn look(session: &Session<'_>, asked: &ArgMatches, root: &Path) -> Self {
        let named: Vec<&String> = asked.get_many("agent").into_iter().flatten().collect();
        let wanted = |agent: &Agent| named.iter().any(|name| *name == agent.name());
        let agents = match named.is_empty() {
            true => Agent::found(&session.around.programs),
            false => AGENTS.into_iter().filter(wanted).collect(),
        };
        let said = session.globals.project.clone();
        let project =
            said.or_else(|| init::project_of(root)).unwrap_or_else(|| init::usual_name(root));
        Self { project, agents, git: init::is_repository(root) }
    }

    fn found(&self) -> String {
        let names: Vec<_> = self.agents.iter().map(|agent| agent.name()).collect();
        if names.is_empty() { "none found on PATH".to_owned() } else { names.join(", ") }
    }

    fn body(&self, plan: &Plan, done: bool) -> Value {
        let change = |change: &Change| {
            let (mark, text) = marked(&change.step);
            json!({ "path": change.path, "mark": mark, "what": change.what, "text": text })
        };
        json!({
            "project": self.project,
            "agents": self.agents.iter().map(|agent| agent.name()).collect::<Vec<_>>(),
            "changes": plan.changes.iter().map(change).collect::<Vec<_>>(),
            "done": done,
        })
    }

    fn ended(&self, count: usize, removing: bool) -> String {
        let files = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
        if removing {
            return format!("{files} are as they were before\n");
        }
        let commit = if self.git {
            "      git add -A && git commit    when you have looked at it\n"
        } else {
            ""
        };
        format!(
            "{files} written; nothing is committed. Restart agents that run here.\n\n\
             next: baton project add {}\n{commit}      baton init --remove          takes it all back\n",
            self.project
        )
    }
}

/// The sign of a step, and the text that comes or goes.
fn marked(step: &Step) -> (&'static str, String) {
    match step {
        Step::Make(placed) => ("+", placed.shown()),
        Step::Put(placed) | Step::Renew(placed) => ("~", placed.shown()),
        Step::Keep => ("=", String::new()),
        Step::Take { rest: None, text } => ("-", text.clone()),
        Step::Take { rest: Some(_), text } => ("~", text.clone()),
        Step::Leave(_) => ("!", String::new()),
    }
}

/// The plan, then every line that comes or goes.
fn shown(scene: &Scene, plan: &Plan, removing: bool) -> String {
    let mut text = format!("project  {}\nagents   {}\n\n", scene.project, scene.found());
    for change in &plan.changes {
        let (mark, _) = marked(&change.step);
        let what = match &change.step {
            Step::Leave(why) => format!("left alone: {why}"),
            Step::Keep => format!("{}, as it should be", change.what),
            Step::Make(_) | Step::Put(_) | Step::Renew(_) | Step::Take { .. } => {
                change.what.to_owned()
            }
        };
        text.push_str(&format!("  {mark} {:<31} {what}\n", change.path));
    }
    let sign = if removing { '-' } else { '+' };
    for change in plan.changes.iter().filter(|change| is_done(change)) {
        let (_, lines) = marked(&change.step);
        text.push_str(&format!("\n{}\n", change.path));
        for line in lines.trim_matches('\n').lines() {
            text.push_str(format!("  {sign} {}", render::clean::line(line)).trim_end());
            text.push('\n');
        }
    }
    text.push('\n');
    text
}
