//! The program.

use std::process::ExitCode;

use baton::{cli, log};

fn main() -> ExitCode {
    #[expect(clippy::disallowed_methods, reason = "read once at the start of the program")]
    let form = std::env::var("BATON_LOG").ok();
    if let Err(error) = log::start(&log::Form::read(form.as_deref())) {
        eprintln!("baton: {error}");
        return ExitCode::from(2);
    }
    cli::run(std::env::args_os())
}
