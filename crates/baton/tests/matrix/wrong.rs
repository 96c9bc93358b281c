//! Wrong values in every field of every operation: the right problem, and no trace.

use baton::operation::{Entry, Method};
use baton::shape::{Field, Form, Shape};
use serde_json::{Value, json};

use crate::caller::{Answer, Ask, Caller};
use crate::examples::{Example, example, table};
use crate::ground::Fresh;
use crate::scene::{Scene, title};
use crate::surfaces::{encoded, plain};
use crate::wrongness::{Wrong, wrongs};

crate::on_every_ground![
    a_wrong_value_in_any_field_is_named_and_changes_nothing,
    what_is_missing_or_unknown_is_named_and_changes_nothing,
    over_http_a_wrong_value_is_named_wherever_it_stands,
];

/// A problem of that code that names that field.
fn check(problem: &Value, code: &str, field: &str, told: &str) {
    assert_eq!(problem["code"], code, "{told}: {problem}");
    assert_eq!(problem["certainty"], "did_not_happen", "{told}");
    let errors = problem["errors"].as_array().unwrap_or_else(|| panic!("{told}: {problem}"));
    let named = errors.iter().any(|error| error["field"] == field);
    assert!(named, "{told}: not `{field}` but {errors:?}");
}

async fn a_wrong_value_in_any_field_is_named_and_changes_nothing(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let before = scene.dump().await;
    let mut asked = 0;
    for entry in table() {
        let Example { who, arguments, .. } = example(&scene, entry);
        for Wrong { value, field } in entry.arguments.fields().iter().flat_map(wrongs) {
            let name = field.split(['.', '[']).next().expect("a field has a name").to_owned();
            let mut arguments = arguments.clone();
            let told = format!("{} {field}={}", title(entry), short(&value));
            arguments[&name] = value;
            let said = scene.perform(&who, entry, arguments, "wrong").await;
            let Err(problem) = said else { panic!("{told} was granted") };
            check(&problem.body(), "invalid", &field, &told);
            asked += 1;
        }
        assert_eq!(scene.dump().await, before, "`{}` left a trace", title(entry));
    }
    assert!(asked > 3_000, "only {asked} requests were made");
}

async fn what_is_missing_or_unknown_is_named_and_changes_nothing(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let before = scene.dump().await;
    for entry in table() {
        let Example { who, arguments, .. } = example(&scene, entry);
        let title = title(entry);
        for field in entry.arguments.fields().iter().filter(|field| field.required) {
            let mut less = arguments.clone();
            less.as_object_mut().expect("an object").remove(field.name);
            let said = scene.perform(&who, entry, less, "wrong").await;
            let Err(problem) = said else { panic!("{title} without {}", field.name) };
            check(&problem.body(), "invalid", field.name, &title);
        }
        let mut more = arguments.clone();
        more["nonsense"] = json!(1);
        let Err(problem) = scene.perform(&who, entry, more, "wrong").await else {
            panic!("{title} with nonsense");
        };
        check(&problem.body(), "invalid", "nonsense", &title);
        for none in [json!(null), json!([]), json!("x"), json!(7)] {
            let Err(problem) = scene.perform(&who, entry, none.clone(), "wrong").await else {
                panic!("{title} with {none}");
            };
            assert_eq!(problem.code(), "invalid", "{title} {none}");
        }
    }
    assert_eq!(scene.dump().await, before);
}

async fn over_http_a_wrong_value_is_named_wherever_it_stands(fresh: Fresh) {
    let scene = Scene::new(fresh).await;
    let before = scene.dump().await;
    let mut caller = scene.world.connect().await;
    for entry in table() {
        let asked = example(&scene, entry);
        for field in entry.arguments.fields() {
            let in_body = entry.about.method != Method::Get
                && !entry.about.placeholders().any(|name| name == field.name);
            if in_body {
                in_the_body(&scene, &mut caller, (entry, &asked), field).await;
            } else {
                in_the_url(&scene, &mut caller, (entry, &asked), field).await;
            }
        }
        assert_eq!(scene.dump().await, before, "`{}` left a trace", title(entry));
    }
}

async fn in_the_body(
    scene: &Scene,
    caller: &mut Caller,
    (entry, asked): (&'static Entry, &Example),
    field: &Field,
) {
    for Wrong { value, field } in wrongs(field) {
        let told = format!("{} {field}={}", title(entry), short(&value));
        let many = value.as_array().is_some_and(|list| list.len() > 500);
        let mut arguments = asked.arguments.clone();
        arguments[field.split(['.', '[']).next().expect("a name")] = value;
        let answer = ask(scene, caller, asked, &plain(entry, &arguments, "wrong")).await;
        // Many records have more names than a body may have.
        if many && answer.code() == "too_large" {
            continue;
        }
        assert_eq!(answer.status, 422, "{told}");
        check(&answer.json(), "invalid", &field, &told);
    }
}

async fn in_the_url(
    scene: &Scene,
    caller: &mut Caller,
    (entry, asked): (&'static Entry, &Example),
    field: &Field,
) {
    for text in texts(&field.shape) {
        let told = format!("{} {}={text:?}", title(entry), field.name);
        let mut arguments = asked.arguments.clone();
        arguments[field.name] = json!(text);
        let request = plain(entry, &arguments, "wrong");
        let answer = ask(scene, caller, asked, &request).await;
        assert_eq!(answer.status, 422, "{told}: {answer:?}");
        check(&answer.json(), "invalid", field.name, &told);
        if entry.about.method == Method::Get && !request.target.contains('?') {
            let twice = format!("{}?{}={}", request.target, field.name, encoded("other"));
            let answer = ask(scene, caller, asked, &Ask { target: twice, ..request }).await;
            assert_eq!(answer.status, 422, "{told} twice");
        }
    }
}

/// Texts that are no value of the shape.
fn texts(shape: &Shape) -> Vec<String> {
    let mut all = vec![" ".to_owned()];
    match shape {
        Shape::Text { bytes_max, form } => {
            // What does not fit into a URL is refused before anybody looks for fields.
            all.extend((*bytes_max < 2_000).then(|| "x".repeat(bytes_max + 1)));
            all.extend(["a\u{0}b", "a\u{1b}b"].map(str::to_owned));
            let formed = form.is_some_and(|form| form != Form::LINE);
            all.extend(formed.then(|| "no such form!".to_owned()));
        }
        Shape::Number { max, .. } => {
            all.extend(["x", "-1", "1.5", "0x10", "1e3"].map(str::to_owned));
            all.extend(max.checked_add(1).map(|more| more.to_string()));
        }
        Shape::Flag => all.extend(["yes", "1"].map(str::to_owned)),
        Shape::Choice(_) => all.push("nonsense".to_owned()),
        Shape::List { .. }
        | Shape::Map { .. }
        | Shape::Record(_)
        | Shape::Tagged { .. }
        | Shape::Json => all.clear(),
    }
    all
}

async fn ask(scene: &Scene, caller: &mut Caller, asked: &Example, ask: &Ask) -> Answer {
    caller.ask(&scene.signed(&asked.who, ask.clone())).await
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}
