//! Limits by how a turn ended, and what a failure means.

use baton::adapters::{
    Class, Exit, FAILURES, Failure, Follower, Heard, Limit, Program, Seen, Usage,
};
use baton_domain::text::Code;
use baton_domain::time::Timestamp;
use expect_test::expect_file;
use serde_json::{Value, json};

use crate::fixture::{Fixture, Record};

fn follow(program: Program) -> Follower {
    Fixture { name: String::new(), program, about: String::new(), records: vec![] }.follow()
}

fn say(follower: &mut Follower, event: &Value) -> Vec<Seen> {
    follower.fold(Heard::Out(format!("{event}\n").as_bytes()))
}

fn tell(follower: &mut Follower, message: &Value) -> Vec<Seen> {
    follower.fold(Heard::In(format!("{message}\n").as_bytes()))
}

fn limits(seen: &[Seen]) -> Vec<&Limit> {
    let limits = seen.iter().map(|seen| match seen {
        Seen::Limited(limit) => Some(limit),
        Seen::Session(_)
        | Seen::Started
        | Seen::Spoke { .. }
        | Seen::ToolStarted { .. }
        | Seen::ToolEnded { .. }
        | Seen::Read(_)
        | Seen::Permission { .. }
        | Seen::Asked { .. }
        | Seen::Settled { .. }
        | Seen::Used(_)
        | Seen::Retrying { .. }
        | Seen::Ended { .. } => None,
    });
    limits.flatten().collect()
}

/// What Claude Code says of its limits.
fn claude_limit(status: &str, resets_at: i64) -> Value {
    let info = json!({ "status": status, "resetsAt": resets_at, "rateLimitType": "five_hour" });
    json!({ "type": "rate_limit_event", "rate_limit_info": info })
}

fn claude_end(refused: Option<u16>) -> Value {
    json!({
        "type": "result", "subtype": "success", "is_error": refused.is_some(),
        "api_error_status": refused, "terminal_reason": "completed",
    })
}

#[test]
fn a_soft_notice_and_a_clean_end_are_no_limit() {
    let mut claude = follow(Program::Claude);
    tell(&mut claude, &json!({ "type": "user" }));
    for status in ["allowed_warning", "rejected"] {
        let seen = say(&mut claude, &claude_limit(status, 1_800_000_000));
        assert!(limits(&seen).iter().all(|limit| !limit.hard), "{status}");
    }
    let seen = say(&mut claude, &claude_end(None));
    assert_eq!(limits(&seen), [] as [&Limit; 0]);
    assert_eq!(seen.last().map(ToString::to_string).as_deref(), Some("ended finished"));
}

#[test]
fn of_two_resets_the_later_one_counts_whichever_came_first() {
    for times in [[1_800_000_000, 1_800_003_600], [1_800_003_600, 1_800_000_000]] {
        let mut claude = follow(Program::Claude);
        tell(&mut claude, &json!({ "type": "user" }));
        for at in times {
            say(&mut claude, &claude_limit("rejected", at));
        }
        let seen = say(&mut claude, &claude_end(Some(429)));
        let resets_at = Some(Timestamp(1_800_003_600_000));
        let hard = Limit { window: "five_hour".to_owned(), hard: true, resets_at };
        assert_eq!(limits(&seen), [&hard]);
    }
}

#[test]
fn a_limit_of_an_earlier_turn_is_not_one_of_the_next() {
    let mut claude = follow(Program::Claude);
    tell(&mut claude, &json!({ "type": "user" }));
    say(&mut claude, &claude_limit("rejected", 1_800_000_000));
    say(&mut claude, &claude_end(None));
    tell(&mut claude, &json!({ "type": "user" }));
    let seen = say(&mut claude, &claude_end(Some(429)));
    assert_eq!(limits(&seen)[0].resets_at, None);
}

#[test]
fn only_windows_that_are_full_say_when_codex_goes_on() {
    let window = |used: u64, resets_at: i64, minutes: u64| json!({ "usedPercent": used, "resetsAt": resets_at, "windowDurationMins": minutes });
    let told = json!({
        "primary": window(100, 1_800_000_000, 300), "secondary": window(40, 1_800_500_000, 10_080),
    });
    let mut codex = follow(Program::Codex);
    let params = json!({ "rateLimits": told });
    let seen =
        say(&mut codex, &json!({ "method": "account/rateLimits/updated", "params": params }));
    assert!(limits(&seen).iter().all(|limit| !limit.hard));
    let error = json!({ "message": "no more", "codexErrorInfo": "usageLimitExceeded" });
    let turn = json!({ "id": "t", "status": "failed", "error": error });
    let seen = say(&mut codex, &json!({ "method": "turn/completed", "params": { "turn": turn } }));
    let resets_at = Some(Timestamp(1_800_000_000_000));
    assert_eq!(limits(&seen), [&Limit { window: "300m".to_owned(), hard: true, resets_at }]);
}

#[test]
fn what_opencode_asks_again_is_seen_in_its_log_alone() {
    let line = "timestamp=2026-11-16T14:01:39.861Z level=ERROR run=1a720c9e message=\"stream error\" \
                providerID=scripted error.error=\"AI_APICallError: it says so in the script\"\n";
    let mut follower = follow(Program::Opencode);
    let seen = follower.fold(Heard::Err(line.as_bytes()));
    assert_eq!(seen, [Seen::Retrying { status: None }]);
    let other = line.replace("level=ERROR", "level=INFO");
    assert_eq!(follower.fold(Heard::Err(other.as_bytes())), []);
}

#[test]
fn a_rising_counter_is_booked_once_whichever_way_it_is_told() {
    let told = |total: u64, last: u64| {
        let usage = json!({
            "total": { "inputTokens": total, "outputTokens": 0 }, "last": { "inputTokens": last },
        });
        json!({ "method": "thread/tokenUsage/updated", "params": { "tokenUsage": usage } })
    };
    // The thread has used 1000 before this process; only what came last is new.
    let mut codex = follow(Program::Codex);
    say(&mut codex, &json!({ "method": "turn/started", "params": { "turn": { "id": "t" } } }));
    let mut booked = Usage::default();
    for event in [told(1_100, 100), told(1_100, 100), told(1_250, 150), told(1_250, 150)] {
        for seen in say(&mut codex, &event) {
            if let Seen::Used(used) = seen {
                booked = booked.plus(used);
            }
        }
    }
    assert_eq!(booked.input, 250);
}

#[test]
fn the_sum_of_what_is_booked_is_what_the_program_says_at_the_end() {
    let message = |id: &str, block: Value| {
        let usage = json!({ "input_tokens": 10, "output_tokens": 1 });
        let message = json!({ "id": id, "model": "m", "content": [block], "usage": usage });
        json!({ "type": "assistant", "message": message })
    };
    let word = || json!({ "type": "text", "text": "x" });
    let mut claude = follow(Program::Claude);
    tell(&mut claude, &json!({ "type": "user" }));
    let mut booked = Usage::default();
    let sum = json!({ "inputTokens": 20, "outputTokens": 9, "costUSD": 0.000_281_2 });
    let mut end = claude_end(None);
    end["model_usage_since_last_result"] = json!({ "m": sum });
    for event in [message("a", word()), message("a", word()), message("b", word()), end] {
        for seen in say(&mut claude, &event) {
            if let Seen::Used(used) = seen {
                booked = booked.plus(used);
            }
        }
    }
    assert_eq!(booked, Usage { input: 20, output: 9, cached: 0, cost_micros: 281 });
}

#[test]
fn an_exit_in_the_middle_of_a_turn_is_told_by_how_it_happened() {
    for (exit, expected) in [
        (Exit::Code(0), "ended gone silent_end (exit code 0)"),
        (Exit::Code(3), "ended failed crashed (exit code 3)"),
        (Exit::Code(127), "ended failed not_installed (exit code 127)"),
        (Exit::Code(143), "ended gone killed (exit code 143)"),
        (Exit::Signal(9), "ended gone killed (signal 9)"),
        (Exit::Signal(2), "ended interrupted killed (signal 2)"),
    ] {
        let seen = follow(Program::Script).fold(Heard::Exited(exit));
        assert_eq!(seen.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn the_table_of_failures_is_as_it_was_and_every_code_is_one() {
    let mut text =
        "Why turns fail: code, class, whether another attempt may help; what the operator \
                    should do; what the user should know. ./check bless rewrites it.\n"
            .to_owned();
    for failure in FAILURES {
        let again = if failure.retryable { "retry" } else { "stop" };
        text.push_str(&format!(
            "\n{} {} {again}\n  operator: {}\n  user: {}\n",
            failure.code,
            failure.class.word(),
            failure.operator,
            failure.user
        ));
        Code::new("code", failure.code).expect("it is a code of the domain");
        assert_eq!(FAILURES.iter().filter(|other| other.code == failure.code).count(), 1);
        assert!(failure.class != Class::Config || !failure.retryable, "{}", failure.code);
    }
    for status in 400..600 {
        assert_ne!(Failure::of_status(status).code, "crashed", "{status}");
    }
    expect_file!["failures.txt"].assert_eq(&text);
}

#[test]
fn what_a_liar_prints_shows_nothing_but_that_it_speaks() {
    let lies = [
        r#"{"type":"completed"}"#,
        r#"{"type":"stopped","death":"pid_namespace"}"#,
        r#"{"complete":{"summary":"done"}}"#,
        r#"{"verdict":"verified","receipts":[]}"#,
        "::set-env name=BATON_CLAIM_TOKEN::mine",
    ];
    for program in baton::adapters::PROGRAMS {
        let mut follower = follow(program);
        for lie in lies {
            let seen = follower.fold(Record::Out(format!("{lie}\n").into_bytes()).heard());
            let speaks = |seen: &Seen| matches!(seen, Seen::Spoke { .. });
            assert!(seen.iter().all(speaks), "{}: {lie}: {seen:?}", program.word());
        }
    }
}
