use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use baton_domain::ids::Capability;

use super::{FILE, Found, Settings};
use crate::adapters::{Consent, Program};

fn found() -> Found {
    Found { own: "/opt/baton".into(), ..Found::default() }
}

fn read(text: &str) -> Result<Settings, String> {
    let folder = tempfile::tempdir().expect("there is room");
    fs::write(folder.path().join(FILE), text).expect("there is room");
    let read = Settings::read(folder.path(), &found());
    read.map_err(|error| error.to_string().replace(&folder.path().display().to_string(), "HOME"))
}

#[test]
fn everything_has_a_default() {
    let settings = read("[agents.demo]\nprogram = 'script'\n").expect("it is good");
    assert_eq!(settings.slots, 4);
    assert_eq!((settings.memory_floor, settings.disk_floor), (512 << 20, 1 << 30));
    assert_eq!(settings.snapshot_every, Duration::from_secs(60));
    let (name, agent) = settings.agent_for(&BTreeSet::new(), None).expect("there is one");
    assert_eq!((name, agent.program), ("demo", Program::Script));
    assert_eq!(agent.command, ["/opt/baton"]);
    assert_eq!(agent.consent, Consent::Edits);
}

#[test]
fn what_breaks_a_rule_is_told_by_its_field() {
    let told = |text: &str| read(text).expect_err("it is wrong");
    assert_eq!(told("slots = 0"), "HOME/worker.toml: `slots` must be 1 to 256");
    assert!(told("slts = 1").contains("unknown field `slts`"), "{}", told("slts = 1"));
    assert!(told("memory_floor = 'much'").contains("`memory_floor` must be a size like 512 MiB"));
    assert!(told("disk_floor = '1 TB'").contains("`disk_floor` must be a size like 512 MiB"));
    assert!(told("snapshot_every = '1s'").contains("`snapshot_every` must be a length of time"));
    assert!(told("isolation = 'maybe'").contains("`isolation` must be try, require or skip"));
    assert!(told("env = ['BATON_KEY']").contains("`env` must be"));
    assert!(
        told("[agents.a]\nprogram = 'x'").contains("`agents.a.program` must be one of command,")
    );
    assert!(told("[agents.a]\nprogram = 'acp'").contains("`agents.a.command` must say"));
    let one = "[agents.a]\nprogram = 'script'\n";
    assert!(told(&format!("default_agent = 'b'\n{one}")).contains("must be one of [agents.…]: a"));
    assert!(told(&format!("{one}[agents.b]\nprogram = 'script'")).contains("`default_agent` must"));
    assert!(told(&format!("{one}files = {{ '../x' = '/y' }}")).contains("`agents.a.files` `../x`"));
}

#[test]
fn a_task_names_its_agent_by_a_capability() {
    let text = "default_agent = 'a'\n[agents.a]\nprogram = 'script'\ncapabilities = ['rust']\n\
                [agents.b]\nprogram = 'script'\naccount = 'team'\ncapabilities = ['web']\n";
    let settings = read(text).expect("it is good");
    let needs = |words: &[&str]| -> BTreeSet<Capability> {
        words.iter().map(|word| Capability::new(word).expect("a name")).collect()
    };
    let agent = |words: &[&str]| settings.agent_for(&needs(words), None).map(|(name, _)| name);
    assert_eq!(agent(&[]), Some("a"));
    assert_eq!(agent(&["agent:b"]), Some("b"));
    assert_eq!(agent(&["web"]), Some("b"));
    assert_eq!(agent(&["agent:c"]), None);
    let team = settings.accounts().first().cloned();
    let of_team = settings.agent_for(&needs(&[]), team.as_ref()).map(|(name, _)| name);
    assert_eq!(of_team, Some("b"), "what was claimed under an account is worked on with it");
    assert_eq!(settings.capabilities(), needs(&["agent:a", "agent:b", "rust", "web"]));
    assert_eq!(settings.accounts().len(), 1);
    let offered: Vec<_> = settings.offered().into_iter().map(|one| one.name.to_string()).collect();
    assert_eq!(offered.len(), settings.agents.len());
    assert_eq!(offered.first().map(String::as_str), agent(&[]), "the usual one comes first");
}

#[test]
fn without_a_file_the_first_program_on_path_is_the_agent() {
    let folder = tempfile::tempdir().expect("there is room");
    let nobody = Settings::read(folder.path(), &found()).expect_err("there is nobody");
    assert!(nobody.next().contains("[agents.NAME]"), "{}", nobody.next());
    let home = folder.path().join("me");
    let put = |path: &Path| {
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("there is room");
        fs::write(path, "x").expect("there is room");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    };
    put(&folder.path().join("bin/codex"));
    put(&home.join(".codex/auth.json"));
    let variables = [("HOME".to_owned(), home.display().to_string())].into();
    let found = Found { programs: vec![folder.path().join("bin")], variables, ..found() };
    let settings = Settings::read(folder.path(), &found).expect("it is good");
    let (name, agent) = settings.agent_for(&BTreeSet::new(), None).expect("there is one");
    assert_eq!((name, agent.program), ("codex", Program::Codex));
    assert_eq!(agent.files[".codex/auth.json"], home.join(".codex/auth.json"));
}
