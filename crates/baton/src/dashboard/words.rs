//! Words and small signs that every page uses: ages, countdowns, badges, money.

use baton_domain::time::{Millis, Timestamp};
use baton_domain::view::{Badge, Need};
use baton_store::read::RunWord;
use maud::{Markup, html};

use crate::shape::When;
use crate::shape::choices::Word;

/// How a state looks: the colour is never all there is, a word stands with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Nothing to see.
    Quiet,
    /// Somebody is at work.
    Busy,
    /// It is being checked.
    Checking,
    /// It is well.
    Good,
    /// It waits for a person.
    Needs,
    /// It went wrong.
    Bad,
}

impl Tone {
    /// The class of its colour.
    #[must_use]
    pub fn class(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::Busy => "busy",
            Self::Checking => "checking",
            Self::Good => "good",
            Self::Needs => "needs",
            Self::Bad => "bad",
        }
    }
}

/// How a badge looks.
#[must_use]
pub fn tone(badge: Badge) -> Tone {
    match badge {
        Badge::Draft
        | Badge::Waiting
        | Badge::Queued
        | Badge::Delayed
        | Badge::Frozen
        | Badge::Abandoned
        | Badge::Superseded
        | Badge::Rejected
        | Badge::Archived
        | Badge::DoneUnverified => Tone::Quiet,
        Badge::Running | Badge::Stopping => Tone::Busy,
        Badge::Verifying | Badge::InMergeQueue => Tone::Checking,
        Badge::Done => Tone::Good,
        Badge::WaitingForInput | Badge::Blocked | Badge::NeedsYou | Badge::Review => Tone::Needs,
        Badge::Silent
        | Badge::MergeFailed
        | Badge::StopUnverified
        | Badge::Failed
        | Badge::EndedWithoutResult => Tone::Bad,
    }
}

/// How a need looks.
#[must_use]
pub fn tone_of_need(need: Need) -> Tone {
    match need {
        Need::Question
        | Need::Approval
        | Need::Input
        | Need::Review
        | Need::Verdict
        | Need::Limit => Tone::Needs,
        Need::Failure
        | Need::EndedWithoutResult
        | Need::Silent
        | Need::StopUnverified
        | Need::Starved
        | Need::Recurring
        | Need::DependencyFailed
        | Need::ChildrenUndone => Tone::Bad,
    }
}

/// Whether somebody holds a run that stands so.
#[must_use]
pub fn is_held(state: RunWord) -> bool {
    match state {
        RunWord::Leased
        | RunWord::Working
        | RunWord::WaitingInput
        | RunWord::Verifying
        | RunWord::Stopping => true,
        RunWord::Queued
        | RunWord::Delayed
        | RunWord::Blocked
        | RunWord::Submitted
        | RunWord::Completed
        | RunWord::Failed
        | RunWord::Cancelled => false,
    }
}

/// A word of the wire as people read it.
#[must_use]
pub fn plain(word: &impl Word) -> String {
    let mut text = word.word().replace('_', " ");
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}

/// The pill of a badge.
#[must_use]
pub fn pill(badge: Badge) -> Markup {
    html! { span class={ "pill " (tone(badge).class()) } { (plain(&badge)) } }
}

/// How long ago something was; the script counts on.
#[must_use]
pub fn ago(at: When, now: Timestamp) -> Markup {
    let text = short(now.since(at.0));
    html! { time datetime=(at) data-since=(at.0.0) { (text) } }
}

/// How long it is until something; the script counts down.
#[must_use]
pub fn until(at: When, now: Timestamp) -> Markup {
    let text = short(at.0.since(now));
    html! { time datetime=(at) data-until=(at.0.0) { (text) } }
}

/// A length of time in its largest whole unit.
#[must_use]
pub fn short(length: Millis) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let seconds = length.0 / 1_000;
    match seconds {
        0..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => format!("{}m", seconds / MINUTE),
        HOUR..DAY => format!("{}h", seconds / HOUR),
        _ => format!("{}d", seconds / DAY),
    }
}

/// The time of day, in the zone of nobody in particular; the script says it in the reader's.
#[must_use]
pub fn clock(at: Timestamp) -> Markup {
    let time = jiff::Timestamp::from_millisecond(at.0).unwrap_or_default();
    html! {
        time datetime=(When(at)) data-clock=(at.0) { (time.strftime("%H:%M:%S").to_string()) }
    }
}

/// Millionths of a currency unit as people read them.
#[must_use]
pub fn money(micros: u64) -> String {
    let cents = micros.div_ceil(10_000);
    format!("${}.{:02}", cents / 100, cents % 100)
}

/// A text as people read it: what stands between backticks is code. Nothing in it is markup of ours.
#[must_use]
pub fn prose(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    // Without its partner a backtick is only a backtick.
    let paired = parts.len() % 2 == 1;
    html! {
        @for (index, part) in parts.iter().enumerate() {
            @if paired && index % 2 == 1 {
                @if part.is_empty() { "``" } @else { code { (part) } }
            } @else {
                @if !paired && index > 0 { "`" }
                (part)
            }
        }
    }
}

/// The first line of a text, and what follows it.
#[must_use]
pub fn headline(text: &str) -> (&str, &str) {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    (first.trim(), rest.trim())
}

/// Somebody, with a sign that is the same wherever the name stands.
#[must_use]
pub fn who(name: &str) -> Markup {
    let hue = name.bytes().fold(7u32, |hash, byte| hash.wrapping_mul(31) ^ u32::from(byte)) % HUES;
    let letter: String = name.chars().take(1).flat_map(char::to_uppercase).collect();
    html! {
        span.who { span class={ "letter hue-" (hue) } aria-hidden="true" { (letter) } (name) }
    }
}

/// How many signs look different.
const HUES: u32 = 6;

/// A stage as a heading: short ones are abbreviations.
#[must_use]
pub fn heading(stage: &str) -> String {
    if stage.len() <= 3 {
        return stage.to_uppercase();
    }
    let mut text = stage.replace(['_', '-'], " ");
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}

/// How much of something is used up, as a line that fills. Thousandths.
#[must_use]
pub fn gauge(share: u64, label: &str) -> Markup {
    let share = share.min(1_000);
    let class = if share >= 750 { "gauge late" } else { "gauge" };
    html! {
        svg class=(class) role="img" aria-label=(label) {
            rect width="100%" height="100%" {}
            rect.used width={ (share / 10) "." (share % 10) "%" } height="100%" {}
        }
    }
}

/// Which part of a stretch of time is over, in thousandths.
#[must_use]
pub fn share(from: Timestamp, to: Timestamp, now: Timestamp) -> u64 {
    now.since(from).0.saturating_mul(1_000) / to.since(from).0.max(1)
}

/// A command that helps, and a button that copies it.
#[must_use]
pub fn command(text: &str) -> Markup {
    html! {
        span.command {
            code { (text) }
            button type="button" data-copy=(text) aria-label={ "Copy: " (text) } { "Copy" }
        }
    }
}
