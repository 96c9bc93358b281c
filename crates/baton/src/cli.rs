//! The command line: parse, dispatch, exit code.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, value_parser};

use crate::{bench, demo, server};

/// Something went wrong that the caller could not have avoided.
const FAILED: u8 = 1;

/// Everything that can be asked for.
fn tree() -> Command {
    let numbers = |name: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_delimiter(',')
            .value_parser(value_parser!(u64).range(1..=10_000_000))
            .default_value(default)
            .help(help)
    };
    Command::new("baton")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Makes the work of autonomous agents durable.")
        .after_help("Start with: baton demo")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("demo")
                .about("Plays a short story against a temporary store and leaves nothing behind"),
        )
        .subcommand(server::command::command())
        .subcommand(
            Command::new("bench")
                .about("Measures the store beside its limits, all in one run")
                .arg(numbers("callers", "1,16,64", "How many callers at once"))
                .arg(numbers("cycles", "40000", "Claim-and-complete cycles per measurement"))
                .arg(numbers("finished", "10000,100000", "Finished tasks to measure beside"))
                .arg(
                    Arg::new("probe").long("probe").hide(true).value_parser(value_parser!(PathBuf)),
                ),
        )
}

/// Runs what was asked for.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let matches = match tree().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => {
            drop(error.print());
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    runtime.block_on(dispatch(&matches))
}

async fn dispatch(matches: &ArgMatches) -> ExitCode {
    let mut out = std::io::stdout();
    match matches.subcommand() {
        Some(("demo", _)) => match demo::run(&mut out).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        },
        Some(("serve", asked)) => server::command::run(asked, None).await,
        Some(("bench", asked)) => {
            let numbers = |name: &str| -> Vec<u64> {
                asked.get_many(name).into_iter().flatten().copied().collect()
            };
            let plan = bench::Plan {
                callers: numbers("callers"),
                cycles: numbers("cycles").first().copied().unwrap_or(1),
                finished: numbers("finished"),
            };
            let done = match asked.get_one::<PathBuf>("probe") {
                Some(folder) => bench::answer_probe(folder, &mut out).await,
                None => bench::run(&plan, &mut out).await,
            };
            match done {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => failed(&error),
            }
        }
        Some(_) | None => ExitCode::from(2),
    }
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("baton: {error}");
    ExitCode::from(FAILED)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_tree_is_sound() {
        super::tree().debug_assert();
    }
}
