//! A Postgres for scripts: `throwaway-postgres [careful|careless|real]` starts a cluster, prints the
//! address of an empty database in it, and takes everything away when its input ends; with a command
//! after `--` it runs that with the address in `BATON_DATABASE_URL`, and ends with it.

use std::io::{Read, Write};
use std::process::{Command, ExitCode};

use baton_testkit::postgres::{Cluster, Disk};

const USAGE: &str = "throwaway-postgres [careful|careless|real] [-- COMMAND ARGUMENT...]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (settings, command) = match arguments.iter().position(|word| word == "--") {
        Some(at) => (&arguments[..at], &arguments[at + 1..]),
        None => (&arguments[..], &[][..]),
    };
    let disk = match settings {
        [] => Disk::Careful,
        [one] if one == "careful" => Disk::Careful,
        [one] if one == "careless" => Disk::Careless,
        [one] if one == "real" => Disk::Real,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let cluster = Cluster::start(disk);
    let database = cluster.database();
    let url = database.url();
    let Some((program, words)) = command.split_first() else {
        return hold(&url);
    };
    let ended = Command::new(program).args(words).env("BATON_DATABASE_URL", &url).status();
    match ended {
        Ok(status) => {
            u8::try_from(status.code().unwrap_or(1)).map_or(ExitCode::FAILURE, Into::into)
        }
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::from(127)
        }
    }
}

/// Says where the database is, and waits for the end of the input.
fn hold(url: &str) -> ExitCode {
    println!("{url}");
    let said = std::io::stdout().flush();
    let heard = std::io::stdin().read_to_end(&mut vec![]);
    if said.is_ok() && heard.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
