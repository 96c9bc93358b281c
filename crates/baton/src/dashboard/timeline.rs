//! The attempts of a task over time: one lane each, with their checkpoints, and how each ended.
//! Time in which nobody held it is folded, and says how long it was.

use baton_domain::time::{Millis, Timestamp};
use maud::{Markup, html};

use super::words::{plain, short};
use crate::views::{AttemptView, CheckpointView};

/// A pause longer than this is folded.
const FOLD_AFTER: Millis = Millis::minutes(5);
/// The part of the width that a folded pause takes, in thousandths.
const FOLD_WIDTH: u64 = 60;
/// The whole width, in thousandths.
const WIDTH: u64 = 1_000;
/// The height of a lane.
const LANE: usize = 44;
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
        let mut busy: Vec<(Timestamp, Timestamp)> = vec![];
        for (from, to) in spans {
            match busy.last_mut() {
                Some((_, end)) if *from <= *end + FOLD_AFTER => *end = (*end).max(*to),
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

    fn folds(&self) -> impl Iterator<Item = &Stretch> {
        self.0.iter().filter(|stretch| stretch.folded)
    }
}

/// A place as a part of the width.
fn percent(place: u64) -> String {
    format!("{}.{}%", place / 10, place % 10)
}

/// The picture.
#[must_use]
pub fn draw(attempts: &[AttemptView], notes: &[CheckpointView], now: Timestamp) -> Markup {
    let first = attempts.len().saturating_sub(LANES_MAX);
    let attempts = &attempts[first..];
    if attempts.is_empty() {
        return html! {};
    }
    let end = |attempt: &AttemptView| attempt.ended_at.map_or(now, |at| at.0);
    let spans: Vec<_> =
        attempts.iter().map(|attempt| (attempt.claimed_at.0, end(attempt))).collect();
    let scale = Scale::of(&spans);
    let height = attempts.len() * LANE + 8;
    html! {
        figure.timeline {
            svg width="100%" height=(height) role="img"
                aria-label={ (attempts.len()) " attempts over time" } {
                @for fold in scale.folds() {
                    rect.fold x=(percent(fold.left)) y="0" width=(percent(fold.width)) height="100%" {}
                    text.fold x=(percent(fold.left + fold.width / 2)) y="12" text-anchor="middle" {
                        (short(fold.to.since(fold.from)))
                    }
                }
                @for (lane, attempt) in attempts.iter().enumerate() {
                    (one(attempt, lane * LANE, &scale, now))
                    @for note in notes.iter().filter(|note| note.attempt == attempt.id) {
                        (mark(&percent(scale.place(note.at.0)), lane * LANE + 30, note))
                    }
                }
            }
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

fn one(attempt: &AttemptView, top: usize, scale: &Scale, now: Timestamp) -> Markup {
    let ended = attempt.ended_at.map_or(now, |at| at.0);
    let (from, to) = (scale.place(attempt.claimed_at.0), scale.place(ended));
    let (class, how) = match (attempt.outcome, attempt.ended_at) {
        (Some(outcome), _) => (plain(&outcome).to_lowercase().replace(' ', "-"), plain(&outcome)),
        (None, None) => ("live".to_owned(), "at work".to_owned()),
        (None, Some(_)) => ("lost".to_owned(), "ended".to_owned()),
    };
    // A label that begins in the right half would run out of the picture.
    let late = from > WIDTH / 2;
    let (anchor, at) = if late { ("end", to.max(from + 4)) } else { ("start", from) };
    html! {
        text.label x=(percent(at)) y=(top + 18) text-anchor=(anchor) {
            tspan.name { (attempt.id) }
            tspan dx="6" {
                (attempt.holder) " · " (how.to_lowercase())
                @if let Some(code) = &attempt.code { " (" (code) ")" }
            }
        }
        rect class={ "lane " (class) } x=(percent(from)) y=(top + 25) height="10" rx="3"
            width=(percent((to - from).max(4))) {}
    }
}
