//! What a task's page says beside its course: why it is not moving, what must be true, how far it is.

use baton_domain::time::Timestamp;
use maud::{Markup, html};

use super::words::{self, ago, plain, prose, until};
use crate::shape::choices::Word as _;
use crate::views::{CauseCode, CauseView, CheckpointView, ContractLine, FoundWord, ReceiptView};

/// Digits of a digest that tell it from others.
const TELLING: usize = 8;

/// Why it is not moving, and what would help.
#[must_use]
pub fn why(causes: &[CauseView], now: Timestamp) -> Markup {
    let over = |cause: &CauseView| matches!(cause.code, CauseCode::Ended | CauseCode::Archived);
    let title = if causes.iter().any(over) { "How it ended" } else { "Why it is not moving" };
    html! {
        @if !causes.is_empty() {
            section.panel {
                h2 { (title) }
                ol.causes {
                    @for cause in causes {
                        li {
                            p {
                                (cause.sentence)
                                @if let Some(since) = cause.since { span.quiet { " For " (ago(since, now)) "." } }
                                @if let Some(at) = cause.until { span.quiet { " Until " (until(at, now)) " from now." } }
                            }
                            @if let Some(said) = &cause.words { blockquote { (prose(said.as_str())) } }
                            @if let Some(text) = &cause.command { (words::command(text)) }
                        }
                    }
                }
            }
        }
    }
}

/// What must be true, and what was found of it.
#[must_use]
pub fn contract(lines: &[ContractLine], receipts: &[ReceiptView], now: Timestamp) -> Markup {
    let held = |line: &ContractLine| receipts.iter().rev().find(|receipt| receipt.line == line.id);
    let holds = |receipt: &ReceiptView| match receipt.found {
        FoundWord::Holds | FoundWord::Waived => true,
        FoundWord::Fails => false,
    };
    let proved = lines.iter().filter(|line| held(line).is_some_and(holds)).count();
    html! {
        section.panel {
            h2 { "Contract " span.quiet { (proved) " of " (lines.len()) } }
            @if lines.is_empty() {
                p.none { "Nothing is asked: what is done is shown as unverified." }
            }
            ul.contract {
                @for line in lines {
                    @let receipt = held(line);
                    li class=[receipt.map(|receipt| receipt.found.word())] {
                        strong { (line.id) }
                        @for text in [&line.command, &line.path, &line.text, &line.check].into_iter().flatten() {
                            code { (text) }
                        }
                        span.quiet {
                            (plain(&line.kind).to_lowercase())
                            @match receipt {
                                Some(receipt) => { " · " (receipt.found.word()) ", " (ago(receipt.at, now)) " ago" }
                                None => " · no receipt yet",
                            }
                        }
                        @if let Some(receipt) = receipt { (proof(receipt)) }
                    }
                }
            }
        }
    }
}

fn proof(receipt: &ReceiptView) -> Markup {
    html! {
        @if let Some(reason) = &receipt.reason { p { (reason) } }
        @if let Some(digest) = &receipt.evidence {
            span.id title=(digest.as_str()) { "evidence " (digest.as_str().chars().take(TELLING).collect::<String>()) "…" }
        }
        @if receipt.signed.is_some() {
            span.quiet { "signed: " code { "baton receipt export " (receipt.task) " " (receipt.line) } }
        }
    }
}

/// What was left for the next holder.
#[must_use]
pub fn notes(notes: &[CheckpointView], now: Timestamp) -> Markup {
    html! {
        ul.notes {
            @for note in notes {
                li {
                    span.id { "#" (note.number) }
                    span {
                        (prose(note.summary.as_str()))
                        @if let Some(cursor) = &note.cursor { span.quiet { " → " (cursor) } }
                    }
                    span.quiet { (ago(note.at, now)) " ago" }
                }
            }
        }
    }
}
