use baton_domain::project::{PassedBy, WorkedBy};

use super::super::{Asked, Error, Pipeline};

fn read(text: &str) -> Result<Option<Pipeline>, Error> {
    Asked::read(text.as_bytes(), &|_| None).map(|asked| asked.pipeline)
}

fn stages(text: &str) -> Vec<(String, WorkedBy, PassedBy)> {
    let pipeline = read(text).expect("it can be read").expect("there is one");
    let told = |spec: baton_domain::project::StageSpec| {
        (spec.name.to_string(), spec.worked_by, spec.passed_by)
    };
    pipeline.stages.into_iter().map(told).collect()
}

#[test]
fn a_repository_passes_coding_qa_and_merge_unless_it_says_otherwise() {
    use PassedBy::{Person, Server};
    use WorkedBy::{Agent, Baton, Train};
    let usual = |second, rest: &[(&str, WorkedBy, PassedBy)]| {
        let first = [("coding", Agent, Server), ("qa", Baton, second)];
        let all = first.into_iter().chain(rest.iter().copied());
        all.map(|(name, by, pass)| (name.to_owned(), by, pass)).collect::<Vec<_>>()
    };
    let train = [("merge", Train, Server)];
    assert_eq!(stages("[pipeline]"), usual(Person, &train), "a person looks before it lands");
    assert_eq!(stages("[pipeline]\nmerge = \"approve\""), usual(Person, &train));
    assert_eq!(stages("[pipeline]\nmerge = \"auto\""), usual(Server, &train));
    assert_eq!(stages("[pipeline]\nmerge = \"off\""), usual(Server, &[]));
    assert_eq!(read("[project]\nname = \"shop\"").expect("it can be read"), None);
}

#[test]
fn stages_are_worked_and_passed_by_whom_the_file_says() {
    let text = r#"
        [pipeline]
        stages = ["plan", "coding", "review", "merge"]
        merge = "auto"
        target = "trunk"
        push = true
        home = "build-box"
        promote = false
        [stages.plan]
        worked_by = "person"
        [stages.review]
        passed_by = "agent"
    "#;
    let words = stages(text);
    assert_eq!(words[0].1, WorkedBy::Person);
    assert_eq!(words[2].2, PassedBy::Agent);
    let pipeline = read(text).expect("it can be read").expect("there is one");
    let told = |line: &Option<baton_domain::text::Line>| line.as_ref().map(ToString::to_string);
    assert_eq!(told(&pipeline.landing.target).as_deref(), Some("trunk"));
    assert_eq!(told(&pipeline.landing.push).as_deref(), Some("origin"));
    assert_eq!(pipeline.landing.home.map(|home| home.to_string()).as_deref(), Some("build-box"));
    assert!(!pipeline.promote);
}

#[test]
fn what_cannot_be_kept_to_is_refused_by_its_name() {
    for (text, field) in [
        ("[pipeline]\nmerge = \"maybe\"", "pipeline.merge"),
        ("[pipeline]\n[stages.lint]", "stages.lint"),
        ("[pipeline]\n[stages.qa]\nworked_by = \"robots\"", "stages.qa.worked_by"),
        ("[pipeline]\nmerge = \"auto\"\n[stages.qa]\npassed_by = \"agent\"", "pipeline.stages"),
        ("[pipeline]\nstages = []", "pipeline.stages"),
        ("[pipeline]\nstages = [\"done\"]", "pipeline.stages"),
    ] {
        let error = read(text).expect_err("it is wrong");
        assert!(error.to_string().contains(field), "{text}: {error}");
    }
}
