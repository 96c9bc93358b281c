//! How programs are started: pinned, bounded, and without a secret where others can read it.

use std::fmt::Write as _;
use std::path::Path;

use baton::adapters::{Consent, PROGRAMS, Plan, Program, Session, Tools, Turn, Usage};
use baton::surroundings::Hidden;
use expect_test::expect_file;

use crate::fixture::SESSION;

const SECRET: &str = "batonc_secret";

fn tools() -> Tools {
    Tools {
        program: "/place/baton".to_owned(),
        arguments: vec!["mcp".to_owned()],
        variables: vec![("BATON_CLAIM_TOKEN".to_owned(), Hidden::new(SECRET))],
    }
}

fn turn<'a>(program: &'a [String], tools: &'a Tools, session: Session<'a>) -> Turn<'a> {
    Turn {
        program,
        arguments: &[],
        prompt: "Write \"the\" file.",
        session,
        folder: Path::new("/place/work"),
        home: Path::new("/place/home"),
        model: Some("small"),
        tools: Some(tools),
        consent: Consent::Ask,
        turns_max: Some(20),
    }
}

fn shown(plan: &Plan) -> String {
    let mut text = String::new();
    for argument in &plan.argv {
        writeln!(text, "  {argument:?}").expect("a text takes all");
    }
    for (name, value) in &plan.environment {
        writeln!(text, "  {name}={value}").expect("a text takes all");
    }
    for folder in &plan.folders {
        writeln!(text, "  ~/{folder}/").expect("a text takes all");
    }
    for file in &plan.files {
        writeln!(text, "  ~/{}: {}", file.path, file.content).expect("a text takes all");
    }
    let stdin = String::from_utf8_lossy(&plan.stdin);
    let end = if plan.closes_stdin { "and its end" } else { "and more later" };
    writeln!(text, "  stdin: {} {end}", stdin.trim_end()).expect("a text takes all");
    text
}

#[test]
fn how_programs_are_started_is_as_it_was() {
    let tools = tools();
    let mut text = "How each program is started; ./check bless rewrites it.\n".to_owned();
    let resumed = Session::Resumed { id: SESSION, booked: Usage::default() };
    for program in PROGRAMS {
        let typed = [program.word().to_owned()];
        for (name, session) in [("new", Session::New(Some(SESSION))), ("resumed", resumed)] {
            let plan = program.plan(&turn(&typed, &tools, session)).expect("it can be started");
            write!(text, "\n{} {name}\n{}", program.word(), shown(&plan)).expect("same");
        }
    }
    expect_file!["plans.txt"].assert_eq(&text);
}

#[test]
fn no_secret_stands_in_a_command_line_a_variable_or_a_file() {
    let tools = tools();
    for program in PROGRAMS {
        let typed = [program.word().to_owned()];
        let turn = turn(&typed, &tools, Session::New(Some(SESSION)));
        let plan = program.plan(&turn).expect("it can be started");
        assert!(!shown(&plan).contains(SECRET), "{}", program.word());
    }
}

#[test]
fn what_no_program_can_be_started_with_is_refused_by_name() {
    let (tools, long) = (tools(), "x".repeat(128 * 1024 + 1));
    let (claude, nothing) = (["claude".to_owned()], []);
    let good = turn(&claude, &tools, Session::New(Some(SESSION)));
    let flag = Session::Resumed { id: "--dangerously-skip-permissions", booked: Usage::default() };
    let odd = ["a\0b".to_owned()];
    for (field, turn) in [
        ("program", Turn { program: &nothing, ..good.clone() }),
        ("arguments", Turn { arguments: &odd, ..good.clone() }),
        ("prompt", Turn { prompt: " ", ..good.clone() }),
        ("prompt", Turn { prompt: &long, ..good.clone() }),
        ("prompt", Turn { prompt: "a\0b", ..good.clone() }),
        ("session", Turn { session: Session::New(None), ..good.clone() }),
        ("session", Turn { session: flag, ..good.clone() }),
        ("model", Turn { model: Some("--settings=x"), ..good.clone() }),
    ] {
        let misfit = Program::Claude.plan(&turn).expect_err("it is refused");
        assert_eq!(misfit.field, field);
    }
    assert!(Program::Claude.plan(&good).is_ok());
}
