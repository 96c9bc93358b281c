use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use baton_testkit::postgres::{Cluster, Disk};
use serde_json::Value;

use crate::home::Home;
use crate::receiver::{BROKEN, ELSEWHERE, GOOD, Receiver};

const ALLOWED: [&str; 2] = ["--webhook-allow", "127.0.0.0/8"];

/// A home with a server, a project and a channel to this receiver; and the secret of the channel.
fn told_by(receiver: &Receiver, more: &[&str]) -> (Home, String) {
    let mut home = Home::new();
    home.serve(&ALLOWED);
    home.does(&["project", "add", "shop"]);
    let mut words = vec!["channel", "add", "hook", "--webhook", &receiver.url];
    words.extend(more);
    let added = home.does(&words);
    let secret = added["secret"].as_str().expect("it is shown this once").to_owned();
    (home, secret)
}

fn channel(home: &Home) -> Value {
    home.does(&["channel", "list"])["items"][0].clone()
}

#[test]
fn a_question_is_told_once_signed_and_not_after_it_is_answered() {
    let receiver = Receiver::new();
    let (home, secret) = told_by(&receiver, &["--done"]);
    let token = home.asked("Write the parser", "Which file?");
    let hook = receiver.next();
    assert!(hook.is_signed_with(&secret));
    assert!(!hook.is_signed_with("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="));
    let body = hook.json();
    assert_eq!(body["type"], "question");
    assert_eq!(body["data"]["task"], "T-1");
    assert_eq!(body["data"]["words"], "Which file?");
    receiver.hears_nothing();
    home.does(&["answer", "T-1", "The second one"]);
    let (body, exit) = home.asks(&["complete", "--summary", "Done"], Some(&token));
    assert_eq!(exit, 0, "{body}");
    let done = receiver.next();
    assert_eq!((&done.json()["type"], done.id() == hook.id()), (&"done".into(), false));
    receiver.hears_nothing();
    let listed = channel(&home);
    assert_eq!((&listed["told"], &listed["waiting"]), (&2.into(), &0.into()));
    let shown =
        home.does(&["channel", "list"]).to_string() + &home.does(&["event", "list"]).to_string();
    assert!(!shown.contains(&secret) && !shown.contains("/in"), "neither secret nor path: {shown}");
}

#[test]
fn a_channel_that_fails_is_shown_and_tried_again_under_the_same_id() {
    let receiver = Receiver::new();
    receiver.will_answer(&[Some(BROKEN)]);
    let (home, secret) = told_by(&receiver, &[]);
    home.asked("Write the parser", "Which file?");
    let first = receiver.next();
    let broken = loop {
        let listed = channel(&home);
        if listed["broken"].is_string() {
            break listed;
        }
    };
    assert_eq!(broken["broken"], "127.0.0.1 answered 500");
    let inbox = home.does(&["inbox"]);
    assert_eq!(inbox["channels"][0]["name"], "hook", "{inbox}");
    let (doctor, exit) = home.asks(&["doctor"], None);
    let findings = doctor["findings"].to_string();
    assert_eq!(exit, 1);
    assert!(findings.contains("nobody is told by hook: 127.0.0.1 answered 500"), "{findings}");
    assert!(findings.contains("baton channel test hook"), "{findings}");
    let second = receiver.next();
    assert!(second.is_signed_with(&secret));
    assert_eq!(first.id(), second.id());
    receiver.hears_nothing();
    assert_eq!(channel(&home)["broken"], Value::Null);
}

#[test]
fn a_server_that_dies_while_it_tells_tells_it_again_under_the_same_id() {
    let receiver = Receiver::new();
    receiver.will_answer(&[None]);
    let (mut home, secret) = told_by(&receiver, &[]);
    home.asked("Write the parser", "Which file?");
    let first = receiver.next();
    home.kill();
    receiver.will_answer(&[Some(GOOD)]);
    home.serve(&ALLOWED);
    let second = receiver.next();
    assert!(second.is_signed_with(&secret), "the secret outlives the server");
    assert_eq!(first.id(), second.id());
    receiver.hears_nothing();
}

#[test]
fn what_is_settled_within_the_delay_is_not_told() {
    let receiver = Receiver::new();
    let (home, _) = told_by(&receiver, &["--delay", "1h"]);
    home.asked("Write the parser", "Which file?");
    receiver.hears_nothing();
    assert_eq!(channel(&home)["waiting"], 1);
    home.does(&["answer", "T-1", "The second one"]);
    receiver.hears_nothing();
    assert_eq!(channel(&home)["waiting"], 0);
}

#[test]
fn a_webhook_goes_nowhere_inside_and_follows_nobody() {
    let receiver = Receiver::new();
    let mut home = Home::new();
    home.serve(&[]);
    let refused = |url: &str| home.asks(&["channel", "add", "x", "--webhook", url], None);
    for url in [receiver.url.as_str(), "https://me:word@example.com/", "ftp://example.com"] {
        let (body, exit) = refused(url);
        assert_eq!((exit, &body["error"]["code"]), (2, &"invalid".into()), "{url}: {body}");
    }
    let secure = receiver.url.replace("http://", "https://");
    let decimal = secure.replace("127.0.0.1", "2130706433");
    for (name, url) in [("a", secure.as_str()), ("b", &decimal), ("c", "https://169.254.169.254/")]
    {
        home.does(&["channel", "add", name, "--webhook", url]);
        let (body, exit) = home.asks(&["channel", "test", name], None);
        assert_eq!((exit, &body["error"]["code"]), (1, &"not_told".into()), "{url}: {body}");
        let why = body["error"]["detail"].as_str().unwrap_or_default();
        assert!(why.contains("--webhook-allow") || why.contains("is not known"), "{url}: {why}");
    }
    receiver.hears_nothing();
    drop(home);
    receiver.will_answer(&[Some(ELSEWHERE)]);
    let (home, _) = told_by(&receiver, &[]);
    let (body, _) = home.asks(&["channel", "test", "hook"], None);
    let why = body["error"]["detail"].as_str().unwrap_or_default();
    assert_eq!(why, "127.0.0.1 answered 302, and redirects are not followed");
    assert_eq!(home.does(&["channel", "test", "hook"])["name"], "hook");
    home.does(&["channel", "remove", "hook"]);
    assert_eq!(home.does(&["channel", "list"])["items"], Value::Array(vec![]));
}

#[test]
fn the_desktop_is_told_by_the_command_that_is_there_or_says_that_none_is() {
    let mut home = Home::new();
    home.serve(&[]);
    home.does(&["project", "add", "shop"]);
    home.does(&["channel", "add", "desk", "--delay", "1h"]);
    let (body, exit) = home.asks(&["channel", "test", "desk"], None);
    assert_eq!(exit, 1);
    let why = body["error"]["detail"].as_str().unwrap_or_default();
    assert!(why.contains("neither notify-send nor gdbus"), "{why}");
    fs::create_dir(home.programs()).expect("there is room");
    let (program, said) = (home.programs().join("notify-send"), home.programs().join("said"));
    let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >> {}\n", said.display());
    fs::write(&program, script).expect("there is room");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
    home.does(&["channel", "test", "desk"]);
    let said = fs::read_to_string(said).expect("it was called");
    assert!(said.contains("--\nBaton can reach you here\nThe channel desk works."), "{said}");
}

#[test]
fn two_servers_of_one_database_tell_nobody_twice() {
    let cluster = Cluster::start(Disk::Careful);
    let database = cluster.database();
    let receiver = Receiver::new();
    let mut first = Home::on(&database.url(), None);
    first.serve(&ALLOWED);
    first.does(&["project", "add", "shop"]);
    let mut second = Home::on(&database.url(), Some(&first));
    second.serve(&ALLOWED);
    first.does(&["channel", "add", "hook", "--webhook", &receiver.url]);
    let mut told = vec![];
    for number in 1..=6 {
        let home = if number % 2 == 0 { &first } else { &second };
        home.asked(&format!("Task {number}"), "Which file?");
        told.push(receiver.next().json()["data"]["task"].clone());
    }
    receiver.hears_nothing();
    told.sort_by_key(Value::to_string);
    told.dedup();
    assert_eq!(told.len(), 6);
}
