//! The page of everything that can be configured. What is said of a key stands here; which keys there are is
//! read from the code that reads them, so that none is missing and none is left over.

use std::collections::BTreeSet;
use std::fs;

use expect_test::expect_file;

use crate::root;

type Structures = &'static [(&'static str, &'static str)];

/// The structures that a file is read into: where they stand, which one, and where it stands in the file.
const FILES: &[(&str, &str, Structures)] = &[
    (
        "baton.toml",
        "crates/baton/src/contract/written.rs",
        &[
            ("Written", ""),
            ("Project", "project."),
            ("Pipeline", "pipeline."),
            ("Worktree", "worktree."),
            ("Stage", "stages.NAME."),
            ("Lines", "contract."),
            ("Artifact", "contract.artifacts.NAME."),
            ("Gate", "contract.gates.NAME."),
            ("Criterion", "contract.criteria.NAME."),
        ],
    ),
    (
        "worker.toml",
        "crates/baton/src/worker/settings.rs",
        &[("Written", ""), ("WrittenAgent", "agents.NAME.")],
    ),
];

/// What is said of each key. Those that only hold others are not listed.
const KEYS: &[(&str, &str)] = &[
    ("project.name", "What the project is called; `baton init` writes the name of the folder."),
    ("pipeline.stages", "The working stages, in the order in which tasks pass them."),
    ("pipeline.merge", "`approve`: a person lets work land; `auto`: it lands once it is verified."),
    ("pipeline.target", "The branch that verified work lands on."),
    (
        "pipeline.push",
        "Whether the target is pushed after that: `true`, `false`, or the name of a remote.",
    ),
    ("pipeline.home", "Which machine moves the branches: the server's, or a named worker."),
    ("pipeline.promote", "Whether tasks with dependencies start by themselves once all are done."),
    ("pipeline.archive_after", "How long after its end a task is put away, like `30d`."),
    ("worktree.setup", "Commands that are run in every new worktree before an agent starts."),
    ("stages.NAME.contract", "Lines that count in this stage alone, under the keys of `contract`."),
    ("stages.NAME.worked_by", "`agent`, `baton` or `person`."),
    ("stages.NAME.passed_by", "`server`: it goes on by itself; `person`: somebody lifts a hold."),
    (
        "contract.protected",
        "Patterns of paths whose change must be looked at; `baton.toml` always is.",
    ),
    (
        "contract.artifacts.NAME.path",
        "A file that must be there, made or changed by the attempt; `*` and `**` stand for names and folders.",
    ),
    ("contract.artifacts.NAME.bytes_min", "How many bytes it has at least."),
    ("contract.artifacts.NAME.schema", "A JSON schema in the same commit that it must fit."),
    (
        "contract.gates.NAME.command",
        "A command that must succeed on a clean checkout of what was handed in.",
    ),
    ("contract.gates.NAME.timeout", "How long it may take; ten minutes if it is left out."),
    ("contract.criteria.NAME.text", "Something that must be true."),
    (
        "contract.criteria.NAME.check",
        "A command that tells whether it is; without one, a person does.",
    ),
    ("slots", "How many agents run at once; four if it is left out."),
    ("memory_floor", "Memory that must be free for one more agent; `512MiB` if it is left out."),
    (
        "disk_floor",
        "Room on the disk that must be left for one more agent; `1GiB` if it is left out.",
    ),
    ("snapshot_every", "How often the work of agents is copied; a minute if it is left out."),
    ("env", "Names of variables that agents get besides the usual ones."),
    ("isolation", "How agents are kept apart from the machine: see the guide on supervision."),
    ("projects", "Where projects are on this machine, by name, if not where the server says."),
    ("default_agent", "Which agent takes work that names none."),
    (
        "agents.NAME.program",
        "Which program it is: `claude`, `codex`, `gemini`, `opencode`, `command`, …",
    ),
    ("agents.NAME.command", "How it is started, if not by its usual name."),
    ("agents.NAME.arguments", "What is added to that."),
    ("agents.NAME.model", "Which model it is asked to use."),
    ("agents.NAME.account", "Under which account it works: accounts share a rate limit."),
    ("agents.NAME.capabilities", "What it can do, for tasks that need it."),
    ("agents.NAME.consent", "What it may do without asking."),
    ("agents.NAME.env", "Variables that it gets."),
    ("agents.NAME.files", "Files with credentials that are put into its home."),
];

/// Keys that only hold others.
const HOLDERS: &[&str] = &[
    "project",
    "worktree",
    "contract",
    "stages",
    "pipeline",
    "contract.artifacts",
    "contract.gates",
    "contract.criteria",
    "agents",
];

/// The fields of a structure, as its source has them.
fn fields(source: &str, name: &str) -> Vec<String> {
    let start = source.find(&format!("struct {name} {{")).expect("the structure is there");
    let body = &source[start..];
    let body = &body[..body.find("\n}").expect("it ends")];
    let lines = body.lines().skip(1).map(str::trim);
    let named = lines.filter(|line| !line.starts_with(['/', '#']) && line.contains(':'));
    let field = |line: &str| {
        let name = line.split(':').next().unwrap_or_default();
        name.rsplit(' ').next().unwrap_or_default().trim_start_matches('_').to_owned()
    };
    named.map(field).collect()
}

/// What the program looks for in its environment, in the words of the code that does.
fn environment(source: &str) -> String {
    let lines = source.lines().filter_map(|line| line.trim().strip_prefix("/// `"));
    let told = lines.filter_map(|line| line.split_once("`: "));
    let row = |(name, what): (&str, &str)| format!("| `{name}` | {what} |\n");
    told.filter(|(name, _)| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
        .map(row)
        .collect()
}

#[test]
fn everything_that_can_be_configured_is_told() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("it is there");
    let mut page =
        "# Configuration\n\nGenerated from the code; `./check bless` rewrites it.\n".to_owned();
    let mut known = BTreeSet::new();
    for (file, source, structures) in FILES {
        let source = read(source);
        page.push_str(&format!("\n## {file}\n\n| key | what it says |\n|---|---|\n"));
        for (name, place) in *structures {
            for field in fields(&source, name) {
                let key = format!("{place}{field}");
                if HOLDERS.contains(&key.as_str()) {
                    continue;
                }
                let told = KEYS.iter().find(|(own, _)| *own == key).map(|(_, told)| *told);
                let told = told.unwrap_or_else(|| panic!("say in KEYS what `{key}` of {file} is"));
                page.push_str(&format!("| `{key}` | {told} |\n"));
                known.insert(key);
            }
        }
    }
    let gone: Vec<_> = KEYS.iter().filter(|(key, _)| !known.contains(*key)).collect();
    assert!(gone.is_empty(), "nobody reads {gone:?} any more");
    page.push_str("\n`baton.toml` counts as it is in the commit that the work begins from; ");
    page.push_str("`worker.toml` is in the data folder of a worker. Unknown keys are refused.\n");
    page.push_str("\n## Environment\n\n| variable | what it says |\n|---|---|\n");
    page.push_str(&environment(&read("crates/baton/src/surroundings.rs")));
    page.push_str("\n## `baton serve`\n\n| flag | what it says |\n|---|---|\n");
    for argument in
        baton::server::command::command().get_arguments().filter(|own| !own.is_hide_set())
    {
        let (long, help) = (argument.get_long().unwrap_or_default(), argument.get_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        page.push_str(&format!("| `--{long}` | {help} |\n"));
    }
    expect_file!["../../../../docs/reference/configuration.md"].assert_eq(&page);
}
