//! Every command of README, guides and examples is run as it stands there, by a real shell, in an empty
//! home, against a real server. A file is one session: what one block leaves, the next one finds.
//!
//! Commands stand in blocks of `sh`. One that cannot be run here says so in its first line, which readers
//! see: `# not run here: it needs a browser`.

mod configuration;
mod llms;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How a block says that it is not run; why follows.
const NOT_RUN: &str = "# not run here: ";
/// Guides whose blocks are still to be written as `sh`: their commands are in transcripts that run
/// elsewhere. The list only gets shorter.
const NOT_YET: &[&str] = &[
    "agents.md",
    "contracts.md",
    "dashboard.md",
    "everyday.md",
    "mcp.md",
    "pipeline.md",
    "postgres.md",
    "rest.md",
    "running-agents.md",
    "running.md",
    "supervision.md",
    "worktrees.md",
];
/// What stands in a terminal of its own is put into the background here; and where a server would listen
/// may be taken, so it takes any other port.
const PRELUDE: &str = r#"set -eu -o pipefail
trap 'kill $server 2>/dev/null || true' EXIT
server=
baton() {
    if [[ ${1:-} != serve ]]; then
        command baton "$@"
        return
    fi
    command baton "$@" --listen 127.0.0.1:0 >"$HOME/said" &
    server=$!
    until grep -q . "$HOME/said"; do sleep 0.1; done
}
"#;

struct Block {
    line: usize,
    language: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What people read: with the folder that a session begins in, if it is not empty.
fn pages() -> Vec<(PathBuf, Option<PathBuf>)> {
    let root = root();
    let mut pages = vec![(root.join("README.md"), None)];
    let list = |folder: &str| {
        let found = fs::read_dir(root.join(folder)).expect("it is there");
        let mut paths: Vec<_> = found.map(|entry| entry.expect("it is there").path()).collect();
        paths.sort();
        paths
    };
    pages.extend(list("docs/guides").into_iter().map(|path| (path, None)));
    let examples = list("examples").into_iter().filter(|path| path.is_dir());
    pages.extend(examples.map(|folder| (folder.join("README.md"), Some(folder))));
    pages
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = vec![];
    let mut open: Option<Block> = None;
    for (line, words) in (1..).zip(text.lines()) {
        match (&mut open, words.strip_prefix("```")) {
            (None, Some(language)) => {
                open = Some(Block { line, language: language.to_owned(), text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => {
                block.text.push_str(words);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "every block is closed");
    blocks
}

fn is_command(line: &str) -> bool {
    ["baton ", "cargo ", "git ", "./check"].iter().any(|word| line.starts_with(word))
}

fn commands(block: &Block) -> usize {
    block.text.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', ' '])).count()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("there is room");
    for entry in fs::read_dir(from).expect("it is there") {
        let path = entry.expect("it is there").path();
        let to = to.join(path.file_name().expect("it has a name"));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).expect("there is room");
        }
    }
}

/// Runs the blocks of one page; answers what was said if it failed.
fn play(begins_in: Option<&Path>, blocks: &[&Block]) -> Result<(), String> {
    let home = tempfile::Builder::new().prefix("reader").tempdir().expect("there is room");
    let mut place = home.path().to_owned();
    if let Some(folder) = begins_in {
        place.push(folder.file_name().expect("it has a name"));
        copy(folder, &place);
    }
    let mut script = PRELUDE.to_owned();
    for block in blocks {
        script.push_str(&format!("echo '== the block at line {}' >&2\n{}", block.line, block.text));
    }
    let program = Path::new(env!("CARGO_BIN_EXE_baton")).parent().expect("it is in a folder");
    let path = variable("PATH").expect("there are programs");
    let ended = Command::new("bash")
        .args(["-c", &script])
        .env_clear()
        .env("PATH", format!("{}:{path}", program.display()))
        .env("HOME", home.path())
        .envs(toolchains())
        .env("GIT_AUTHOR_NAME", "Ann")
        .env("GIT_AUTHOR_EMAIL", "ann@example.com")
        .env("GIT_COMMITTER_NAME", "Ann")
        .env("GIT_COMMITTER_EMAIL", "ann@example.com")
        .current_dir(&place)
        .stdin(Stdio::null())
        .output()
        .expect("there is a shell");
    if ended.status.success() {
        return Ok(());
    }
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Err(format!("{}\n{}{}", ended.status, said(&ended.stdout), said(&ended.stderr)))
}

#[expect(clippy::disallowed_methods, reason = "where the programs of this machine are")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Where toolchains are that are otherwise looked for at home.
fn toolchains() -> Vec<(&'static str, String)> {
    let home = variable("HOME").unwrap_or_default();
    let at = |name: &'static str, folder: &str| {
        (name, variable(name).unwrap_or_else(|| format!("{home}/{folder}")))
    };
    vec![at("RUSTUP_HOME", ".rustup"), at("CARGO_HOME", ".cargo")]
}

#[test]
fn every_command_that_people_read_is_run() {
    let (mut failed, mut run, mut not_run) = (vec![], 0, vec![]);
    for (path, begins_in) in pages() {
        let text = fs::read_to_string(&path).expect("it can be read");
        let name = path.strip_prefix(root()).expect("it is ours").display().to_string();
        if path.file_name().is_some_and(|own| NOT_YET.iter().any(|it| own == *it)) {
            continue;
        }
        let all = blocks(&text);
        let shell: Vec<_> = all.iter().filter(|block| block.language == "sh").collect();
        let (skipped, played): (Vec<_>, Vec<_>) =
            shell.into_iter().partition(|block| block.text.starts_with(NOT_RUN));
        for block in skipped {
            let why = block.text.lines().next().unwrap_or_default();
            not_run.push(format!("{name}:{}: {}", block.line, why.trim_start_matches(NOT_RUN)));
        }
        for block in all.iter().filter(|block| block.language != "sh") {
            if block.text.lines().any(is_command) {
                failed.push(format!("{name}:{}: commands stand in blocks of sh", block.line));
            }
        }
        if played.is_empty() {
            continue;
        }
        run += played.iter().map(|block| commands(block)).sum::<usize>();
        if let Err(why) = play(begins_in.as_deref(), &played) {
            failed.push(format!("{name}: {why}"));
        }
    }
    let told = format!(
        "{run} lines of commands were run, {} blocks were not\n{}\n",
        not_run.len(),
        not_run.join("\n")
    );
    fs::write(root().join("target/docs-commands.txt"), &told).expect("there is room");
    println!("{told}");
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
