//! What happened to a task, in sentences: the same events that are recorded, as people tell them.

use maud::{Markup, html};
use serde_json::Value;

use super::words::{clock, headline, money, prose};
use crate::views::{EventView, Happening};

/// One thing that happened, as it is told.
struct Told {
    /// How it looks: plain, speech, note, good, bad.
    class: &'static str,
    sign: &'static str,
    sentence: String,
    /// What was said.
    words: Option<String>,
}

/// What happened, the newest first.
#[must_use]
pub fn draw(events: &[EventView]) -> Markup {
    html! {
        ol.activity {
            @for entry in events {
                @for told in entry.events.iter().rev().filter_map(tell) {
                    li class=(told.class) {
                        (clock(entry.at.0))
                        span.sign aria-hidden="true" { (told.sign) }
                        div {
                            span { (told.sentence) }
                            @if let Some(words) = &told.words {
                                @let (first, rest) = headline(words);
                                p.words { (prose(first)) }
                                @if !rest.is_empty() { details { summary { "All of it" } p.words { (prose(rest)) } } }
                            }
                        }
                        span.quiet { (entry.actor.principal) }
                    }
                }
                @if entry.erased == Some(true) {
                    li { (clock(entry.at.0)) span.sign {} div.quiet { "Erased on purpose." } span {} }
                }
            }
            @if events.is_empty() { li { div { p.none { "Nothing yet." } } } }
        }
    }
}

fn text(event: &Happening, path: &[&str]) -> Option<String> {
    let mut found = event.told(path.first()?)?;
    for name in &path[1..] {
        found = found.get(name)?;
    }
    match found {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn count(event: &Happening, part: &str, list: &str) -> usize {
    let found = event.told(part).and_then(|part| part.get(list));
    found.and_then(Value::as_array).map_or(0, Vec::len)
}

fn tell(event: &Happening) -> Option<Told> {
    let say = |path: &[&str]| text(event, path).unwrap_or_default();
    let words = |path: &[&str]| text(event, path);
    let plain = |sentence: String| told("", "•", sentence, None);
    Some(match event.word() {
        "claimed" => told(
            "begins",
            "▸",
            format!("Attempt {} began, held by {}", say(&["attempt"]), say(&["holder"])),
            None,
        ),
        "began" => plain("At work".into()),
        // What a worker sees of its agent is drawn as ticks; as lines it would drown everything else.
        "seen" => return None,
        "answer_marked" => told("good", "✓", format!("The answer was {}", say(&["mark"])), None),
        "progressed" => {
            let done = count(event, "report", "done");
            let sentence =
                if done > 0 { format!("Progress: {done} more done") } else { "Progress".into() };
            told("", "›", sentence, words(&["report", "summary"]))
        }
        "checkpointed" => told(
            "note",
            "◆",
            format!("Checkpoint #{}", say(&["number"])),
            words(&["note", "summary"]),
        ),
        "asked" => told("asks", "?", "Asked a person".into(), words(&["question"])),
        "answered" => told("speech", "“", "Answered".into(), words(&["answer"])),
        "spent" => plain(format!("Spent {} more", money(say(&["micros"]).parse().unwrap_or(0)))),
        "submitted" => told("good", "↑", "Says that it is done".into(), words(&["summary"])),
        "attempt_ended" => ended(event),
        "hold_set" => {
            let on = event.told("on").and_then(Value::as_bool) == Some(true);
            let verb = if on { "Put on hold" } else { "Hold lifted" };
            told("", "•", format!("{verb}: {}", say(&["hold"])), words(&["reason"]))
        }
        "moved" => plain(match words(&["to"]) {
            Some(stage) => format!("Moved to {stage}"),
            None => "Moved to the backlog".into(),
        }),
        "run_finished" => told("", "■", format!("The run {}", say(&["ended"])), words(&["reason"])),
        "requeued" => told(
            "",
            "•",
            format!("Waits for a holder again: {}", say(&["why"]).replace('_', " ")),
            words(&["reason"]),
        ),
        "stopping" => told("", "•", "Being stopped".into(), words(&["reason"])),
        "dependency_added" | "dependency_removed" | "dependency_settled" => {
            plain(format!("{}: {}", sentence_of(event.word()), say(&["on"])))
        }
        other => plain(sentence_of(other)),
    })
}

fn told(class: &'static str, sign: &'static str, sentence: String, words: Option<String>) -> Told {
    Told { class, sign, sentence, words: words.filter(|words| !words.trim().is_empty()) }
}

/// How an attempt ended, and what becomes of the run.
fn ended(event: &Happening) -> Told {
    let how = text(event, &["outcome"]).unwrap_or_default();
    let code = text(event, &["code"]).map(|code| format!(" ({code})")).unwrap_or_default();
    let (class, sign) = match how.as_str() {
        "completed" => ("good", "✓"),
        "released" | "cancelled" => ("", "■"),
        _ => ("bad", "✗"),
    };
    let number = text(event, &["attempt"]).unwrap_or_default();
    let sentence = format!("Attempt {number} ended: {}{code}", how.replace('_', " "));
    told(class, sign, sentence, text(event, &["reason"]))
}

/// The word of an event as a sentence.
fn sentence_of(word: &str) -> String {
    let mut text = word.replace('_', " ");
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}
