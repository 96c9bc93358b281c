use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::pieces::Form;
use super::{
    AGENTS, Agent, Plan, RECORD, Step, Why, examined, is_repository, pieces, plan, plan_back,
    project_of, root,
};

mod guide;
mod members;

/// A repository with these files.
pub(super) fn repository(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("there is room");
    fs::create_dir(folder.path().join(".git")).expect("it is ours");
    fs::write(folder.path().join(".git/HEAD"), "ref: refs/heads/main\n").expect("it is ours");
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("it is in the folder")).expect("it is ours");
        fs::write(path, text).expect("it is ours");
    }
    folder
}

/// Everything in a folder, to the byte, with the folders.
pub(super) fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for one in fs::read_dir(folder).expect("it is ours") {
        let path = one.expect("it is there").path();
        let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
        if path.is_dir() {
            found.insert(format!("{name}/"), vec![]);
            let inner = contents(&path).into_iter();
            found.extend(inner.map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else {
            found.insert(name, fs::read(&path).expect("it is ours"));
        }
    }
    found
}

fn planned(folder: &TempDir, agents: &[Agent]) -> Plan {
    plan(folder.path(), &pieces("shop", agents, is_repository(folder.path())))
        .expect("it can be planned")
}

fn set_up(folder: &TempDir, agents: &[Agent]) {
    planned(folder, agents).carry_out(folder.path()).expect("it can be done");
}

fn take_back(folder: &TempDir) {
    let plan = plan_back(folder.path()).expect("it can be planned");
    plan.carry_out(folder.path()).expect("it can be done");
}

/// Files as people have them: with and without an end of line, comments, tabs, nothing.
const FILES: &[(&str, &str)] = &[
    ("AGENTS.md", "# Rules\n\nBe kind."),
    (".mcp.json", "{\n    \"mcpServers\": {\n        \"other\": { \"command\": \"x\" }\n    }\n}"),
    (".claude/settings.json", "{\"permissions\": {}, \"hooks\": {\"SessionStart\": []}}\n"),
    (".codex/config.toml", "model = \"x\"\n\n"),
    (".gemini/settings.json", "{}"),
    ("opencode.json", "{\n\t// mine\n\t\"theme\": \"dark\",\n\t\"mcp\": {}\n}\n"),
    ("baton.toml", "# ours\n"),
];

#[test]
fn what_was_put_there_is_taken_back_to_the_byte() {
    for files in [&[][..], FILES, &FILES[..3], &FILES[3..]] {
        for agents in [&AGENTS[..], &[Agent::Claude], &[Agent::Codex, Agent::Gemini], &[]] {
            let folder = repository(files);
            let before = contents(folder.path());
            set_up(&folder, agents);
            let after = contents(folder.path());
            assert_ne!(before, after);
            assert!(before.keys().all(|name| after.contains_key(name)), "nothing went away");
            take_back(&folder);
            assert_eq!(contents(folder.path()), before, "{agents:?}");
        }
    }
}

#[test]
fn doing_it_twice_is_doing_it_once() {
    let folder = repository(FILES);
    set_up(&folder, &AGENTS);
    let once = contents(folder.path());
    let again = planned(&folder, &AGENTS);
    assert!(again.is_done() && !again.leaves(), "{again:?}");
    set_up(&folder, &AGENTS);
    assert_eq!(contents(folder.path()), once);
    assert_eq!(examined(folder.path(), &AGENTS), Some(vec![]));
}

#[test]
fn only_what_is_found_is_set_up() {
    let folder = repository(&[]);
    set_up(&folder, &[Agent::Codex]);
    let written = |folder: &Path| -> Vec<String> {
        let is_ours = |name: &String| !name.ends_with('/') && !name.starts_with(".git/");
        contents(folder).into_keys().filter(is_ours).collect()
    };
    let names = written(folder.path());
    assert_eq!(names, [RECORD, ".codex/config.toml", "AGENTS.md", "baton.toml"]);
    let alone = repository(&[]);
    set_up(&alone, &[]);
    let names = written(alone.path());
    assert_eq!(names, [RECORD, "baton.toml"], "nobody reads AGENTS.md here");
}

#[test]
fn what_others_write_around_it_stays_and_what_they_change_in_it_is_theirs() {
    let folder = repository(&[]);
    set_up(&folder, &AGENTS);
    let edit = |name: &str, change: &dyn Fn(String) -> String| {
        let path = folder.path().join(name);
        let text = fs::read_to_string(&path).expect("it is there");
        fs::write(&path, change(text)).expect("it is ours");
    };
    edit("AGENTS.md", &|text| format!("# First\n\n{text}\nLast.\n"));
    edit(".mcp.json", &|text| text.replace("\"mcp\"", "\"mcp\", \"--toolset\", \"all\""));
    let again = planned(&folder, &AGENTS);
    let step = |path: &str| {
        let found = again.changes.iter().find(|change| change.path == path);
        found.expect("it is planned").step.clone()
    };
    assert_eq!(step("AGENTS.md"), Step::Keep);
    assert_eq!(step(".mcp.json"), Step::Leave(Why::Changed));
    let wrong = examined(folder.path(), &AGENTS).expect("it was set up");
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    let theirs = fs::read(folder.path().join(".mcp.json")).expect("it is there");
    take_back(&folder);
    let left = contents(folder.path());
    assert_eq!(left[".mcp.json"], theirs, "not a byte of it");
    assert_eq!(left["AGENTS.md"], b"# First\n\n\nLast.\n");
    assert!(left.contains_key(RECORD), "what is left is still known");
}

#[test]
fn what_was_there_before_is_never_taken_for_ours() {
    let folder = repository(&[
        (".mcp.json", "{ \"mcpServers\": { \"baton\": { \"command\": \"mine\" } } }"),
        (".claude/skills/baton/SKILL.md", "mine"),
        ("AGENTS.md", "<!-- baton:begin 0 -->\nold\n<!-- baton:end -->\n"),
        (".claude/settings.json", "{ nonsense"),
    ]);
    let before = contents(folder.path());
    let plan = planned(&folder, &[Agent::Claude]);
    let mut left = vec![];
    for change in &plan.changes {
        if let Step::Leave(why) = change.step {
            left.push((change.path.as_str(), why));
        }
    }
    assert_eq!(
        left,
        [
            ("AGENTS.md", Why::Foreign),
            (".mcp.json", Why::Foreign),
            (".claude/settings.json", Why::Unreadable),
            (".claude/skills/baton/SKILL.md", Why::Foreign),
        ]
    );
    set_up(&folder, &[Agent::Claude]);
    take_back(&folder);
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn a_table_of_somebody_else_is_not_written_a_second_time() {
    let folder = repository(&[
        (".codex/config.toml", "[mcp_servers.baton]\ncommand = \"mine\"\n"),
        ("baton.toml", "[project]\nname = \"mine\"\n"),
    ]);
    let left = planned(&folder, &[Agent::Codex]).changes.into_iter();
    let left = left.filter(|change| change.step == Step::Leave(Why::Foreign));
    let left: Vec<_> = left.map(|change| change.path).collect();
    assert_eq!(left, ["baton.toml", ".codex/config.toml"]);
}

#[test]
fn a_file_with_two_members_is_renewed_whole_and_stays_json() {
    let folder = repository(&[(".gemini/settings.json", "{ \"theme\": \"x\" }")]);
    let before = contents(folder.path());
    let mut older = pieces("shop", &[Agent::Gemini], false);
    for piece in &mut older {
        if let Form::Members(members) = &mut piece.form {
            members[0].value = "an older one".into();
        }
    }
    let planned_then = plan(folder.path(), &older).expect("it can be planned");
    planned_then.carry_out(folder.path()).expect("it can be done");
    set_up(&folder, &[Agent::Gemini]);
    let path = folder.path().join(".gemini/settings.json");
    let text = fs::read_to_string(path).expect("it is there");
    let settings: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(settings["mcpServers"]["baton"]["command"], "baton", "{text}");
    assert_eq!(settings["hooks"]["SessionStart"].as_array().map(Vec::len), Some(1), "{text}");
    assert_eq!(settings["theme"], "x", "{text}");
    take_back(&folder);
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn a_folder_that_is_only_called_like_a_repository_is_none() {
    let folder = repository(&[]);
    let inner = folder.path().join("inner");
    fs::create_dir_all(inner.join(".git")).expect("it is ours");
    assert_eq!(root(&inner), folder.path());
    fs::write(inner.join(".git/HEAD"), "").expect("it is ours");
    assert_eq!(root(&inner), inner);
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).expect("it is ours");
    fs::write(tree.join(".git"), "gitdir: elsewhere\n").expect("it is ours");
    assert_eq!(root(&tree.join("deep")), tree);
}

#[test]
fn a_link_is_not_followed() {
    let folder = repository(&[("CLAUDE.md", "mine")]);
    std::os::unix::fs::symlink("CLAUDE.md", folder.path().join("AGENTS.md")).expect("it is ours");
    set_up(&folder, &[Agent::Claude]);
    assert_eq!(fs::read(folder.path().join("CLAUDE.md")).expect("it is there"), b"mine");
}

#[test]
fn a_record_that_was_tampered_with_is_not_believed() {
    let folder = repository(&[]);
    set_up(&folder, &[]);
    let path = folder.path().join(RECORD);
    let text = fs::read_to_string(&path).expect("it is there");
    fs::write(&path, text.replace("[project]", "[other]")).expect("it is ours");
    assert!(plan_back(folder.path()).is_err());
}

#[test]
fn the_block_for_agents_is_at_most_ten_lines_and_the_project_has_its_name() {
    let folder = repository(&[]);
    set_up(&folder, &AGENTS);
    let text = fs::read_to_string(folder.path().join("AGENTS.md")).expect("it is there");
    assert!(text.lines().count() <= 10, "{text}");
    assert_eq!(project_of(folder.path()).as_deref(), Some("shop"));
    assert_eq!(project_of(&folder.path().join("nowhere/in/it")).as_deref(), Some("shop"));
}
