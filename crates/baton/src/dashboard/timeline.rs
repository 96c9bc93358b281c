//! The attempts of a task over time: one lane each, with its phases, its signs of work and its
//! checkpoints, how each ended, and what was handed on. Time in which nobody held it is folded, and
//! says how long it was.

use baton_domain::time::{Millis, Timestamp};
use maud::{Markup, html};

use super::words::{plain, short};
use crate::views::{AttemptView, CheckpointView, EventKind, EventView};

/// A pause shorter than this is never folded.
const FOLD_MIN: Millis = Millis::seconds(5);
/// The part of the width that a folded pause takes, in thousandths.
const FOLD_WIDTH: u64 = 60;
/// The whole width, in thousandths.
const WIDTH: u64 = 1_000;
/// The height of a lane.
const LANE: usize = 52;
/// Where the first lane begins: above it are the times.
const TOP: usize = 24;
/// Signs of work that are drawn of one attempt.
const TICKS_MAX: usize = 60;
/// Lanes that are drawn: the last ones.
pub const LANES_MAX: usize = 24;

/// A stretch of time, and where it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    from: Timestamp,
    to: Timestamp,
    /// Thousandths of the width.
    left: u64,
    width: u64,
    folded: bool,
}

/// Where moments are drawn.
#[derive(Debug)]
pub struct Scale(Vec<Stretch>);

impl Scale {
    /// A scale on which these spans can be seen; they come in the order of their beginning.
    #[must_use]
    pub fn of(spans: &[(Timestamp, Timestamp)]) -> Self {
        // What counts as a long pause depends on how long the work took.
        let work: u64 = spans.iter().map(|(from, to)| to.since(*from).0).sum();
        let pause = Millis(work / 2).max(FOLD_MIN);
        let mut busy: Vec<(Timestamp, Timestamp)> = vec![];
        for (from, to) in spans {
            match busy.last_mut() {
                Some((_, end)) if *from <= *end + pause => *end = (*end).max(*to),
                Some(_) | None => busy.push((*from, *to)),
            }
        }
        let folds = u64::try_from(busy.len().saturating_sub(1)).unwrap_or(0);
        let room = WIDTH.saturating_sub(folds * FOLD_WIDTH).max(WIDTH / 2);
        let fold = (WIDTH - room).checked_div(folds).unwrap_or(0);
        let total: u64 = busy.iter().map(|(from, to)| to.since(*from).0).sum::<u64>().max(1);
        let (mut stretches, mut left, mut before): (Vec<Stretch>, u64, Option<Timestamp>) =
            (vec![], 0, None);
        for (from, to) in busy {
            if let Some(before) = before {
                stretches.push(Stretch { from: before, to: from, left, width: fold, folded: true });
                left += fold;
            }
            let width = to.since(from).0.saturating_mul(room) / total;
            stretches.push(Stretch { from, to, left, width, folded: false });
            left += width;
            before = Some(to);
        }
        Self(stretches)
    }

    /// Where a moment is drawn, in thousandths of the width.
    #[must_use]
    pub fn place(&self, at: Timestamp) -> u64 {
        for stretch in &self.0 {
            if at <= stretch.to {
                let length = stretch.to.since(stretch.from).0.max(1);
                let done = at.since(stretch.from).0.min(length);
                return stretch.left + stretch.width.saturating_mul(done) / length;
            }
        }
        self.0.last().map_or(0, |last| last.left + last.width)
    }

    /// Moments that are worth a label: where a stretch begins, and between, if it is wide.
    fn labels(&self) -> Vec<Timestamp> {
        let mut labels = vec![];
        for stretch in self.0.iter().filter(|stretch| !stretch.folded) {
            let parts = stretch.width / 180;
            let length = stretch.to.since(stretch.from).0;
            let at = |part: u64| stretch.from + Millis(length.saturating_mul(part) / parts.max(1));
            labels.extend((0..parts.max(1)).map(at));
        }
        labels
    }

    /// Whether it is so short that minutes do not tell enough.
    fn is_short(&self) -> bool {
        let shown = self.0.iter().filter(|stretch| !stretch.folded);
        shown.map(|stretch| stretch.to.since(stretch.from).0).sum::<u64>() < Millis::minutes(20).0
    }

    fn folds(&self) -> impl Iterator<Item = &Stretch> {
        self.0.iter().filter(|stretch| stretch.folded)
    }
}

/// A place as a part of the width.
fn percent(place: u64) -> String {
    format!("{}.{}%", place / 10, place % 10)
}

/// What happened to one attempt.
#[derive(Default)]
struct Course {
    /// Since when it did what.
    phases: Vec<(Timestamp, &'static str)>,
    /// When it was seen to do something.
    ticks: Vec<Timestamp>,
}

/// The course of each attempt, by what was recorded, oldest first.
fn courses(attempts: &[AttemptView], events: &[EventView]) -> Vec<Course> {
    let mut courses: Vec<Course> = attempts
        .iter()
        .map(|one| Course { phases: vec![(one.claimed_at.0, "setup")], ticks: vec![] })
        .collect();
    for entry in events.iter().rev() {
        let at = entry.at.0;
        let is_of = |one: &AttemptView| {
            one.claimed_at.0 <= at && one.ended_at.is_none_or(|end| at <= end.0)
        };
        let Some(index) = attempts.iter().rposition(is_of) else { continue };
        let course = &mut courses[index];
        for happened in &entry.events {
            if let Some(phase) = PHASES.iter().find(|(kind, _)| happened.is(*kind)) {
                course.phases.push((at, phase.1));
            }
            if SIGNS.iter().any(|kind| happened.is(*kind)) && course.ticks.len() < TICKS_MAX {
                course.ticks.push(at);
            }
        }
    }
    courses
}

/// What an attempt does from such an event on.
const PHASES: [(EventKind, &str); 8] = [
    (EventKind::Began, "work"),
    (EventKind::Asked, "asks"),
    (EventKind::Answered, "work"),
    (EventKind::Withdrawn, "work"),
    (EventKind::Submitted, "checks"),
    (EventKind::Verified, "work"),
    (EventKind::Exited, "stops"),
    (EventKind::Stopping, "stops"),
];

/// What shows that somebody is at work.
const SIGNS: [EventKind; 4] =
    [EventKind::Seen, EventKind::Progressed, EventKind::Checkpointed, EventKind::Spent];

/// What is drawn.
pub struct Past<'a> {
    pub attempts: &'a [AttemptView],
    pub notes: &'a [CheckpointView],
    /// The newest first.
    pub events: &'a [EventView],
    /// When the live attempt is ended by its wall clock.
    pub ends_at: Option<Timestamp>,
}

/// The picture.
#[must_use]
pub fn draw(past: &Past<'_>, now: Timestamp) -> Markup {
    let first = past.attempts.len().saturating_sub(LANES_MAX);
    let attempts = &past.attempts[first..];
    if attempts.is_empty() {
        return html! {};
    }
    let end = |attempt: &AttemptView| attempt.ended_at.map_or(now, |at| at.0);
    let mut spans: Vec<_> =
        attempts.iter().map(|attempt| (attempt.claimed_at.0, end(attempt))).collect();
    spans.extend(past.ends_at.map(|at| (at, at)));
    let scale = Scale::of(&spans);
    let height = TOP + attempts.len() * LANE + 6;
    html! {
        figure.timeline {
            div.scroll tabindex="0" role="region" aria-label="Attempts over time" {
                svg width="100%" height=(height) role="img"
                    aria-label={ (attempts.len()) " attempts over time" } {
                    (ground(&scale, past.ends_at, now))
                    @for (lane, course) in courses(attempts, past.events).iter().enumerate() {
                        (elbow(attempts, lane, &scale, now))
                        (one(&attempts[lane], course, TOP + lane * LANE, &scale, now))
                        @for note in past.notes.iter().filter(|note| note.attempt == attempts[lane].id) {
                            (mark(&percent(scale.place(note.at.0)), TOP + lane * LANE + 30, note))
                        }
                    }
                }
            }
            (legend())
        }
    }
}

/// Times, folded waits, and the end that comes by itself.
fn ground(scale: &Scale, ends_at: Option<Timestamp>, now: Timestamp) -> Markup {
    let seconds = scale.is_short();
    html! {
        defs {
            pattern #folded width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                rect.stripe width="4" height="8" {}
            }
        }
        @for at in scale.labels() {
            @if ends_at != Some(at) {
                line.hour x1=(percent(scale.place(at))) x2=(percent(scale.place(at))) y1="18" y2="100%" {}
                text.hour x=(percent(scale.place(at))) y="12" data-clock=(at.0) data-short[!seconds] {
                    (clock_word(at, seconds))
                }
            }
        }
        @for fold in scale.folds() {
            rect.fold x=(percent(fold.left)) y="18" width=(percent(fold.width)) height="100%" {}
            text.fold x=(percent(fold.left + fold.width / 2)) y="34" text-anchor="middle" {
                (short(fold.to.since(fold.from)))
            }
        }
        @if let Some(at) = ends_at {
            line.deadline x1=(percent(scale.place(at))) x2=(percent(scale.place(at))) y1="16" y2="100%" {}
            text.deadline x=(percent(scale.place(at))) y="12" text-anchor="end" {
                "ends in " (short(at.since(now)))
            }
        }
    }
}

fn clock_word(at: Timestamp, seconds: bool) -> String {
    let time = jiff::Timestamp::from_millisecond(at.0).unwrap_or_default();
    time.strftime(if seconds { "%H:%M:%S" } else { "%H:%M" }).to_string()
}

/// What goes from one attempt to the next.
fn elbow(attempts: &[AttemptView], lane: usize, scale: &Scale, now: Timestamp) -> Markup {
    let Some(before) = lane.checked_sub(1).map(|before| &attempts[before]) else { return html! {} };
    let from = percent(scale.place(before.ended_at.map_or(now, |at| at.0)));
    let to = percent(scale.place(attempts[lane].claimed_at.0));
    let (above, here) = (TOP + (lane - 1) * LANE + 30, TOP + lane * LANE + 30);
    html! {
        line.elbow x1=(from) x2=(from) y1=(above) y2=(here) {}
        line.elbow x1=(from) x2=(to) y1=(here) y2=(here) {}
    }
}

fn legend() -> Markup {
    html! {
        figcaption.legend {
            @for (class, name) in [("setup", "begins"), ("work", "works"), ("asks", "asks"), ("checks", "is checked"), ("stops", "stops")] {
                span { span class={ "swatch " (class) } {} (name) }
            }
            span { span.swatch.note { "◆" } "checkpoint" }
            span { span.swatch.tick {} "sign of work" }
            span { span.swatch.folded {} "nobody held it" }
        }
    }
}

/// A checkpoint.
fn mark(x: &str, y: usize, note: &CheckpointView) -> Markup {
    html! {
        svg.note x=(x) y=(y) overflow="visible" {
            path d="M0 -5 5 0 0 5 -5 0z" { title { "#" (note.number) " " (note.summary) } }
        }
    }
}

fn one(
    attempt: &AttemptView,
    course: &Course,
    top: usize,
    scale: &Scale,
    now: Timestamp,
) -> Markup {
    let ended = attempt.ended_at.map_or(now, |at| at.0);
    let (from, to) = (scale.place(attempt.claimed_at.0), scale.place(ended));
    let (class, how) = match (attempt.outcome, attempt.ended_at) {
        (Some(outcome), _) => (plain(&outcome).to_lowercase().replace(' ', "-"), plain(&outcome)),
        (None, None) => ("live".to_owned(), "at work".to_owned()),
        (None, Some(_)) => ("lost".to_owned(), "ended".to_owned()),
    };
    // A label that begins in the right half would run out of the picture.
    let (anchor, at) = if from > WIDTH / 2 { ("end", to.max(from + 4)) } else { ("start", from) };
    let starts = course.phases.iter().map(|(at, _)| *at).skip(1).chain([ended]);
    html! {
        text.label x=(percent(at)) y=(top + 18) text-anchor=(anchor) {
            tspan.name { (attempt.id) }
            tspan dx="6" {
                (attempt.holder) " · " (how.to_lowercase())
                @if let Some(code) = &attempt.code { " (" (code) ")" }
                @if let Some(deadline) = &attempt.deadline { " (" (plain(deadline).to_lowercase()) ")" }
            }
        }
        @for ((at, phase), next) in course.phases.iter().zip(starts) {
            @let (left, right) = (scale.place(*at), scale.place(next.min(ended)));
            rect class={ "lane " (phase) } x=(percent(left)) y=(top + 25) height="11"
                width=(percent(right.saturating_sub(left).max(3))) { title { (phase) } }
        }
        @for tick in &course.ticks {
            @let x = percent(scale.place(*tick));
            line.tick x1=(x) x2=(x) y1=(top + 39) y2=(top + 43) {}
        }
        svg.end x=(percent(to)) y=(top + 30) overflow="visible" {
            circle class=(class) r="6" {}
            title { (how) }
        }
    }
}
