//! A word on the screen of the machine that the server runs on, by the command that is there.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// How long the command may take: it only hands the words over.
const COMMAND_MAX: Duration = Duration::from_secs(5);
/// How much of a text is shown.
const SHOWN_MAX: usize = 300;

/// Shows a title and some words.
pub async fn show(programs: &[PathBuf], title: &str, words: &str) -> Result<(), String> {
    let find = |name: &str| programs.iter().map(|at| at.join(name)).find(|path| path.is_file());
    let (title, words) = (plain(title), marked(words));
    let mut command = if let Some(program) = find("notify-send") {
        by_notify_send(&program, &title, &words)
    } else if let Some(program) = find("gdbus") {
        by_gdbus(&program, &title, &words)
    } else {
        return Err("neither notify-send nor gdbus is to be found on the server's PATH".to_owned());
    };
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    let ended = timeout(COMMAND_MAX, command.output()).await;
    let ended = ended.map_err(|_| format!("{name} took too long"))?;
    let ended = ended.map_err(|error| format!("{name} cannot be run: {error}"))?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(format!("{name} failed: {}", plain(said.lines().next().unwrap_or("it says nothing"))))
}

fn by_notify_send(program: &Path, title: &str, words: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["--app-name=Baton", "--", title, words]);
    command
}

/// What notify-send would do: the method of the freedesktop specification.
fn by_gdbus(program: &Path, title: &str, words: &str) -> Command {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let mut command = Command::new(program);
    command.args(["call", "--session", "--dest=org.freedesktop.Notifications"]);
    command.args(["--object-path=/org/freedesktop/Notifications"]);
    command.arg("--method=org.freedesktop.Notifications.Notify").arg("--");
    command.args(["'Baton'", "0", "''", &quoted(title), &quoted(words), "[]", "{}", "-1"]);
    command
}

/// One short line without anything that a screen would not show.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !crate::shape::is_hidden(*c)).take(SHOWN_MAX).collect()
}

/// The same where `<` and `&` would be taken for marks: links in what an agent said are not followed.
fn marked(text: &str) -> String {
    plain(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
