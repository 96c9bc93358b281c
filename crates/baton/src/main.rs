//! The program.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use baton::surroundings::Surroundings;
use baton::{cli, log};

#[expect(clippy::disallowed_methods, reason = "read once at the start of the program")]
fn main() -> ExitCode {
    let form = std::env::var("BATON_LOG").ok();
    let around = Surroundings::read(|name| std::env::var_os(name), std::io::stdout().is_terminal());
    if let Err(error) = log::start(&log::Form::read(form.as_deref())) {
        eprintln!("baton: {error}");
        return ExitCode::from(2);
    }
    cli::run(std::env::args_os(), &around)
}
