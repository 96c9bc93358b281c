//! What the work on a run changed: the files, and their patches line by line.

use maud::{Markup, html};
use serde_json::json;

use super::Onlooker;
use super::words::command;
use crate::problem::Problem;
use crate::views::{DiffView, RunView};

/// Lines of a patch that are drawn: what is more is for a terminal.
const LINES_MAX: usize = 3_000;

/// The patch of one file.
struct File<'a> {
    path: &'a str,
    lines: Vec<Line<'a>>,
}

/// A line of a patch: where it was, where it is, and what it says.
struct Line<'a> {
    class: &'static str,
    old: Option<u32>,
    new: Option<u32>,
    text: &'a str,
}

/// What a run changed.
pub async fn draw(onlooker: &Onlooker, run: Option<&RunView>) -> Result<Markup, Problem> {
    let nothing = html! {
        p.none { "No work was brought here yet. Workers bring it at checkpoints, and when an agent stops." }
    };
    let Some(run) = run else { return Ok(nothing) };
    let found = onlooker.ask::<DiffView>(("run", "diff"), json!({ "run": run.id })).await;
    let diff = match found {
        // A server that keeps no work, or cannot compare it now, says so in words.
        Err(problem) => return Ok(html! { p.none { (problem.detail()) } }),
        Ok(diff) => diff,
    };
    if diff.snapshot.is_none() {
        return Ok(nothing);
    }
    let patch = diff.patch.as_deref().unwrap_or_default();
    let (files, cut) = read(patch);
    Ok(html! {
        (summary(&diff))
        @for file in &files {
            section.file id={ "file-" (file.path) } {
                h3 { code { (file.path) } }
                div.patch tabindex="0" role="region" aria-label=(file.path) {
                    @for line in &file.lines {
                        div class=(line.class) {
                            span.at { @if let Some(old) = line.old { (old) } }
                            span.at { @if let Some(new) = line.new { (new) } }
                            code { (line.text) }
                        }
                    }
                }
            }
        }
        @if cut || diff.unshown > 0 {
            p.quiet { "There is more than a page holds: " (command(&format!("baton diff {}", run.task))) }
        }
    })
}

fn summary(diff: &DiffView) -> Markup {
    let count = diff.items.len() as u64 + diff.dropped;
    html! {
        p.stat {
            b.added { "+" (diff.added) } " " b.removed { "−" (diff.removed) }
            " in " (count) (if count == 1 { " file" } else { " files" })
            @if let Some(attempt) = diff.attempt { span.quiet { " · " (attempt) } }
            @if let (Some(base), Some(now)) = (&diff.base, &diff.snapshot) {
                span.id { " " (short(base.as_str())) "…" (short(now.as_str())) }
            }
        }
        ul.files {
            @for file in &diff.items {
                li {
                    a href={ "#file-" (file.path) } { code { (file.path) } }
                    @if let Some(from) = &file.from { span.quiet { " was " (from) } }
                    span.end {
                        @match (file.added, file.removed) {
                            (Some(added), Some(removed)) => { b.added { "+" (added) } " " b.removed { "−" (removed) } },
                            (_, _) => span.quiet { "no text" },
                        }
                    }
                }
            }
        }
    }
}

fn short(commit: &str) -> &str {
    commit.get(..8).unwrap_or(commit)
}

/// The files of a patch, and whether it was cut.
fn read(patch: &str) -> (Vec<File<'_>>, bool) {
    let mut files: Vec<File<'_>> = vec![];
    let (mut old, mut new, mut in_hunk) = (0, 0, false);
    let mut lines = patch.lines();
    for text in lines.by_ref().take(LINES_MAX) {
        if let Some(rest) = text.strip_prefix("diff --git ") {
            let path = rest.rsplit_once(" b/").map_or(rest, |(_, path)| path);
            files.push(File { path, lines: vec![] });
            in_hunk = false;
            continue;
        }
        let Some(file) = files.last_mut() else { continue };
        if let Some(rest) = text.strip_prefix("@@ -") {
            (old, new) = starts(rest);
            in_hunk = true;
            file.lines.push(Line { class: "hunk", old: None, new: None, text });
            continue;
        }
        if !in_hunk {
            continue;
        }
        let (class, was, is) = match text.as_bytes().first() {
            Some(b'+') => ("plus", None, Some(new)),
            Some(b'-') => ("minus", Some(old), None),
            Some(b'\\') => ("hunk", None, None),
            Some(_) | None => ("", Some(old), Some(new)),
        };
        old += u32::from(was.is_some());
        new += u32::from(is.is_some());
        file.lines.push(Line { class, old: was, new: is, text });
    }
    (files, lines.next().is_some())
}

/// Where a hunk begins before and after: `12,5 +14,8 @@`.
fn starts(rest: &str) -> (u32, u32) {
    let number = |text: &str| {
        let digits = text.split(|c: char| !c.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(1)
    };
    let after = rest.split_once('+').map_or("", |(_, after)| after);
    (number(rest), number(after))
}
