//! The program.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use baton::surroundings::{Surroundings, Variables};
use baton::{cli, init, log, points, shim};

#[expect(clippy::disallowed_methods, reason = "read once at the start of the program")]
fn main() -> ExitCode {
    points::watch(std::env::var_os(points::VARIABLE));
    // An agent's own process stays as small as it can be: no runtime, no log, nothing read.
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|name| name == "shim") {
        return shim::run(arguments);
    }
    let form = std::env::var("BATON_LOG").ok();
    let terminal = std::io::stdout().is_terminal();
    let mut around = Surroundings::read(|name| std::env::var_os(name), terminal);
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    around.variables = Variables(variables.collect());
    if around.project.is_none() {
        around.project = std::env::current_dir().ok().and_then(|here| init::project_of(&here));
    }
    if let Err(error) = log::start(&log::Form::read(form.as_deref())) {
        eprintln!("baton: {error}");
        return ExitCode::from(2);
    }
    cli::run(std::env::args_os(), &around)
}
