use std::collections::BTreeSet;

use baton_domain::contract::{Contract, Term};
use baton_domain::ids::{LineId, StageName};
use baton_domain::text::Line;
use baton_domain::time::Millis;

use super::{Asked, Error, FILE_BYTES_MAX, GATE_TIMEOUT, PROTECTED_MAX, digest, hash};

const SCHEMA: &str = r#"{ "type": "object" }"#;

const WHOLE: &str = r#"
[project]
name = "shop"

[contract]
protected = [".github/**", "tests/*.rs"]

[contract.artifacts.report]
path = "out/*.json"
bytes_min = 10
schema = "schemas/report.json"

[contract.gates]
tests = { command = "cargo test", timeout = "20m" }
lint = { command = "cargo clippy" }

[stages.qa.contract]
protected = ["docs/**"]
criteria.guide = { text = "The guide says so", check = "grep -q shop docs/guide.md" }
"#;

fn files(path: &str) -> Option<Vec<u8>> {
    (path == "schemas/report.json").then(|| SCHEMA.as_bytes().to_vec())
}

fn read(text: &str) -> Result<Asked, Error> {
    Asked::read(text.as_bytes(), &files)
}

fn line(name: &str) -> LineId {
    LineId::new(name).expect("a name")
}

fn text(text: &str) -> Line {
    Line::new("text", text).expect("a line")
}

fn stage(name: &str) -> StageName {
    StageName::new(name).expect("a name")
}

fn gate(command: &str) -> Contract {
    let term = Term::Gate { command: text(command), timeout: GATE_TIMEOUT };
    Contract { lines: [(line("own"), term)].into() }
}

#[test]
fn a_stage_and_a_task_add_to_what_the_project_asks_for() {
    let asked = read(WHOLE).expect("it is sound");
    let nowhere = asked.merged(None, &Contract::default()).expect("it goes together");
    let names: Vec<_> = nowhere.contract.lines.keys().map(LineId::as_str).collect();
    assert_eq!(names, ["lint", "report", "tests"]);
    assert_eq!(
        nowhere.contract.lines[&line("tests")],
        Term::Gate { command: text("cargo test"), timeout: Millis::minutes(20) }
    );
    let report = Term::Artifact {
        path: text("out/*.json"),
        bytes_min: 10,
        schema: Some(digest(SCHEMA.as_bytes())),
    };
    assert_eq!(nowhere.contract.lines[&line("report")], report);
    assert_eq!(asked.schemas[&digest(SCHEMA.as_bytes())], SCHEMA.as_bytes());

    let qa = asked.merged(Some(&stage("qa")), &gate("make e2e")).expect("it goes together");
    let names: Vec<_> = qa.contract.lines.keys().map(LineId::as_str).collect();
    assert_eq!(names, ["guide", "lint", "own", "report", "tests"]);
    let coding = asked.merged(Some(&stage("coding")), &Contract::default()).expect("it does");
    assert_eq!(coding, nowhere, "a stage that says nothing asks for nothing more");
}

#[test]
fn no_task_and_no_stage_takes_the_place_of_a_line_of_the_project() {
    let asked = read(WHOLE).expect("it is sound");
    let term = Term::Gate { command: text("true"), timeout: Millis::minutes(20) };
    let weaker = Contract { lines: [(line("tests"), term)].into() };
    let refused = asked.merged(None, &weaker).expect_err("it asks for less");
    assert!(refused.to_string().contains("the task's contract, line tests"), "{refused}");
    let same = Contract { lines: asked.everywhere.lines.clone() };
    assert_eq!(asked.merged(None, &same), asked.merged(None, &Contract::default()));

    let stage =
        "[contract.gates.a]\ncommand = \"x\"\n[stages.qa.contract.gates.a]\ncommand = \"y\"\n";
    let refused = read(stage).expect_err("the stage asks for less");
    assert!(refused.to_string().contains("stages.qa.contract, line a"), "{refused}");
}

#[test]
fn the_hash_is_of_what_is_asked_for_and_of_nothing_else() {
    let whole = |text: &str| {
        read(text).and_then(|asked| asked.merged(None, &Contract::default())).expect("it is sound")
    };
    let one = whole("[contract.gates]\na = { command = \"x\" }\nb = { command = \"y\" }\n");
    let other = "# other words\n[contract.gates.b]\ncommand = 'y'\ntimeout = \"10m\"\n\
                 [contract.gates.a]\ncommand = \"x\"\n[project]\nname = \"n\"\n";
    assert_eq!(whole(other).hash, one.hash);
    for changed in [
        "[contract.gates]\na = { command = \"x\" }\n",
        "[contract.gates]\na = { command = \"x\" }\nb = { command = \"z\" }\n",
        "[contract.gates]\na = { command = \"x\" }\nc = { command = \"y\" }\n",
        "[contract]\nprotected = [\"ci/**\"]\n[contract.gates]\na = { command = \"x\" }\nb = { command = \"y\" }\n",
    ] {
        assert_ne!(whole(changed).hash, one.hash, "{changed}");
    }
    // The hash of a task's own lines is what it always was.
    let task = gate("x");
    let lines = serde_json::to_value(&task.lines).expect("plain terms").to_string();
    assert_eq!(hash(&task, &BTreeSet::new()), digest(lines.as_bytes()));
}

#[test]
fn the_file_itself_is_always_protected() {
    let whole = Asked::default().merged(None, &Contract::default()).expect("nothing is sound");
    let changed = ["baton.toml".to_owned(), "src/baton.toml".to_owned()];
    assert_eq!(whole.guarded(&changed).collect::<Vec<_>>(), ["baton.toml"]);
    let whole =
        read(WHOLE).and_then(|asked| asked.merged(Some(&stage("qa")), &Contract::default()));
    let changed: Vec<String> = [
        ".github/workflows/ci.yml",
        "tests/deep/one.rs",
        "tests/one.rs",
        "docs/guide.md",
        "src/main.rs",
    ]
    .map(str::to_owned)
    .into();
    let whole = whole.expect("it is sound");
    let guarded: Vec<_> = whole.guarded(&changed).collect();
    assert_eq!(guarded, [".github/workflows/ci.yml", "tests/one.rs", "docs/guide.md"]);
}

#[test]
fn what_is_wrong_is_named_by_its_field_and_its_rule() {
    let many = format!("[contract]\nprotected = [{}]\n", "\"a\",".repeat(3));
    assert!(read(&many).is_ok(), "the same pattern twice is one");
    let many: String = (0..PROTECTED_MAX).map(|n| format!("\"p{n}\",")).collect();
    let lines: String =
        (0..65).map(|n| format!("[contract.gates.g{n}]\ncommand = \"x\"\n")).collect();
    let stages: String = (0..13).map(|n| format!("[stages.s{n}]\n")).collect();
    for (text, says) in [
        ("[contract", "unclosed"),
        ("[contracts.gates.a]\ncommand = \"x\"", "contracts"),
        ("[contract.gate.a]\ncommand = \"x\"", "gate"),
        ("[contract.gates.a]\ncomand = \"x\"", "`contract.gates.a"),
        ("[contract.gates.a]\ncommand = \"x\"\ntimeout = 5", "`contract.gates.a.timeout`"),
        ("[contract.gates.a]\ncommand = \"x\"\ntimeout = \"soon\"", "length of time"),
        ("[contract.gates.a]\ncommand = \"x\"\ntimeout = \"0s\"", "1 s to 24 h"),
        ("[contract.gates.a]\ncommand = \"x\"\ntimeout = \"25h\"", "1 s to 24 h"),
        ("[contract.gates.a]\ncommand = \"  \"", "`contract.gates.a.command` must not be blank"),
        ("[contract.gates.A]\ncommand = \"x\"", "`contract.gates.A` must be 1 to"),
        ("[contract.artifacts.a]\npath = \"../x\"", "line a` must be a relative path"),
        ("[contract.artifacts.a]\npath = \"/x\"", "relative path"),
        ("[contract.artifacts.a]\npath = \"a**/x\"", "`**` only as a whole part"),
        ("[contract.artifacts.a]\npath = \"x\"\nbytes_min = -1", "bytes_min"),
        ("[contract.artifacts.a]\npath = \"x\"\nschema = \"no.json\"", "not a file of the same"),
        ("[contract]\nprotected = [\"/etc\"]", "`contract.protected[0]` must be a relative path"),
        (
            "[contract]\ngates.a = { command = \"x\" }\nartifacts.a = { path = \"x\" }",
            "has the name of another line",
        ),
        ("[stages.QA]\n", "`stages.QA` must be 1 to"),
        (&format!("[contract]\nprotected = [{many}]"), "must not be more than 64"),
        (&lines, "must not be more than 64"),
        (&stages, "must not be more than 12"),
    ] {
        let refused = read(text).expect_err(text);
        assert!(refused.to_string().contains(says), "{text}\n{refused}");
        assert!(refused.next().contains("baton contract check"));
    }
    assert_eq!(Asked::read(b"\xff", &files), Err(Error::NotText));
    assert_eq!(Asked::read(&vec![b'#'; FILE_BYTES_MAX + 1], &files), Err(Error::TooLarge));
}

#[test]
fn a_schema_is_a_json_object_of_the_same_commit() {
    let with = |bytes: &[u8]| {
        let text = b"[contract.artifacts.a]\npath = \"x\"\nschema = \"s\"\n";
        let bytes = bytes.to_vec();
        Asked::read(text, &move |_| Some(bytes.clone()))
    };
    assert!(with(b"{}").is_ok());
    for bad in [b"[]".as_slice(), b"{", b"", b"\xff", &[b' '; super::SCHEMA_BYTES_MAX + 1]] {
        assert!(with(bad).is_err());
    }
}

#[test]
fn nothing_asked_for_is_sound() {
    for text in ["", "[project]\nname = \"shop\"\n", "[contract]\n", "[stages.coding]\n"] {
        let asked = read(text).expect("it is sound");
        assert!(asked.merged(None, &Contract::default()).expect("it is").contract.lines.is_empty());
    }
}

#[test]
fn the_commands_that_set_a_worktree_up_are_read_and_bounded() {
    let file = |line: &str| super::setup(format!("[worktree]\nsetup = {line}\n").as_bytes());
    assert_eq!(file(r#"["npm ci", "make"]"#).expect("they are good"), ["npm ci", "make"]);
    assert_eq!(super::setup(b"").expect("nothing is asked for"), Vec::<String>::new());
    let many = format!("[{}]", "'true',".repeat(33));
    for wrong in [r#"[""]"#, r#"["a\nb"]"#, r#""npm ci""#, &many] {
        let error = file(wrong).expect_err("it breaks a rule");
        assert!(error.to_string().contains("setup"), "{error}");
    }
}
