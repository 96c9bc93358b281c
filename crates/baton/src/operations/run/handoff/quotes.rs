//! From what was gathered to quotes: no reading here, and no clock.

use std::collections::{BTreeMap, BTreeSet};

use baton_domain::contract::{Finding, Receipt, Term};
use baton_domain::event::Event;
use baton_domain::history::{AttemptRecord, CheckpointRecord};
use baton_domain::ids::{AttemptId, Label};
use baton_domain::text::Line;
use baton_store::{Entry, TaskRow};

use super::super::WORKERS_OWN;
use super::{Behind, Leg, Relative, words};
use crate::shape::When;
use crate::shape::choices::Word as _;
use crate::views::{AttemptView, HandoffItem, HandoffSection, HandoffView, Room};

impl Behind {
    /// The packet, in the order in which somebody who knows nothing would ask.
    pub(super) fn packet(&self, row: &TaskRow) -> HandoffView {
        let sections = [
            HandoffSection::of(Room::GOAL, vec![goal(row)], 0),
            HandoffSection::of(Room::CONTRACT, contract(row), 0),
            HandoffSection::of(Room::BLOCK, self.block(), 0),
            self.checkpoints(),
            self.attempts(),
            self.questions(),
            self.relatives(),
            HandoffSection::of(Room::FINDINGS, self.findings(), 0),
            HandoffSection::of(Room::GIT, self.git(), 0),
            self.open_items(),
        ];
        HandoffView::of(self.run, sections.into_iter().flatten().collect())
    }

    fn relatives(&self) -> Option<HandoffSection> {
        let items = self.relatives.iter().map(relative).collect();
        HandoffSection::of(Room::RELATIVES, items, self.relatives_dropped)
    }

    fn block(&self) -> Vec<HandoffItem> {
        let Some(block) = &self.block else { return vec![] };
        let (reason, condition) = words::why(&self.said, block);
        let condition = condition.map(|line| format!("\ncondition: {line}")).unwrap_or_default();
        let reason = reason.map(|reason| reason.to_string()).unwrap_or_default();
        let item =
            HandoffItem::new("the last holder", format!("blocked: {}", block.why.kind().word()));
        vec![item.at(When(block.at)).quoting(&format!("{reason}{condition}"))]
    }

    fn checkpoints(&self) -> Option<HandoffSection> {
        let holders: BTreeMap<u32, String> = self
            .legs
            .iter()
            .flat_map(|leg| &leg.attempts)
            .map(|one| (one.number, one.holder.to_string()))
            .collect();
        let quote = |one: &CheckpointRecord| self.checkpoint(one, &holders);
        let notes = |leg: &Leg| -> Vec<HandoffItem> {
            leg.checkpoints.iter().map(quote).chain(self.submission(leg)).collect()
        };
        let items = self.legs.iter().flat_map(notes).collect();
        let dropped = self.legs.iter().map(|leg| leg.checkpoints_dropped).sum();
        HandoffSection::of(Room::CHECKPOINTS, items, dropped)
    }

    /// What was said of an earlier run when it was last submitted.
    fn submission(&self, leg: &Leg) -> Option<HandoffItem> {
        let submitted = leg.trail.submitted.filter(|_| leg.id != self.run)?;
        let summary = |(entry, event)| {
            let summary = submitted_with(event)?;
            let from: &Entry = entry;
            let about = format!("the last submission of {}", leg.id);
            let item = HandoffItem::new(from.actor.principal.to_string(), about);
            Some(item.at(When(from.at)).quoting(summary))
        };
        self.said.of(submitted).filter_map(summary).next_back()
    }

    fn checkpoint(
        &self,
        record: &CheckpointRecord,
        holders: &BTreeMap<u32, String>,
    ) -> HandoffItem {
        let id = AttemptId { task: self.run.task, number: record.attempt };
        let from = match holders.get(&record.attempt) {
            Some(holder) => format!("{id} ({holder})"),
            None => id.to_string(),
        };
        let note = &record.note;
        let mut text = note.summary.to_string();
        if let Some(cursor) = &note.cursor {
            text.push_str(&format!("\ngo on at: {cursor}"));
        }
        for evidence in &note.evidence {
            let summary = evidence.summary.as_ref().map(|it| format!(" ({it})"));
            let summary = summary.unwrap_or_default();
            text.push_str(&format!(
                "\nevidence: {} {}{summary}",
                evidence.kind, evidence.reference
            ));
        }
        let done = record.progress;
        let about = format!(
            "checkpoint {}, {} items done, {} failed",
            record.number, done.done, done.failed
        );
        HandoffItem::new(from, about).at(When(record.at)).quoting(&text)
    }

    /// How every attempt ended; of a run with many, first how many ended how.
    fn attempts(&self) -> Option<HandoffSection> {
        let totals = self.legs.iter().filter_map(total).collect();
        let attempts = self.legs.iter().flat_map(|leg| &leg.attempts);
        let items = attempts.map(|one| self.attempt(one)).collect();
        let dropped: u64 = self.legs.iter().map(|leg| leg.attempts_dropped).sum();
        // Of a run that is too long ago to be read, one attempt at least is not shown.
        let unread = u64::from(self.run.number).saturating_sub(self.legs.len() as u64);
        let dropped = dropped + unread;
        HandoffSection::headed(Room::ATTEMPTS, totals, items, dropped)
    }

    fn attempt(&self, record: &AttemptRecord) -> HandoffItem {
        let view = AttemptView::ended(self.run.task, record);
        let mut about = record.outcome.ended().word().to_owned();
        if let Some(code) = &view.code {
            about.push_str(&format!(", code {code}"));
        }
        if let Some(deadline) = view.deadline {
            about.push_str(&format!(", deadline {}", deadline.word()));
        }
        about.push_str(&format!(", effects {}", record.certainty.word()));
        let told = record.told.into_iter().flat_map(|version| self.said.of(version));
        let reason = told.filter_map(|(_, event)| reason_of(event)).next_back();
        HandoffItem::new(format!("{} ({})", view.id, view.holder), about)
            .at(When(record.ended_at))
            .quoting(reason.unwrap_or_default())
    }

    /// What was asked, answered and unblocked.
    fn questions(&self) -> Option<HandoffSection> {
        let talk = || self.legs.iter().map(|leg| &leg.trail.talk);
        let said = talk().flat_map(|keys| &keys.last).flat_map(|version| self.said.of(*version));
        let items: Vec<_> = said.filter_map(exchange).collect();
        let kept: usize = talk().map(|keys| keys.last.len()).sum();
        let count: u64 = talk().map(|keys| u64::from(keys.count)).sum();
        HandoffSection::of(Room::QUESTIONS, items, count.saturating_sub(kept as u64))
    }

    /// What was found of the last submission that was checked.
    fn findings(&self) -> Vec<HandoffItem> {
        let last = self.legs.iter().rev().find_map(|leg| leg.trail.verified);
        let found = last.into_iter().flat_map(|version| self.said.of(version));
        found.flat_map(|(entry, event)| of_receipts(entry, event)).collect()
    }

    /// The state of the work tree at the last checkpoint that told of it.
    fn git(&self) -> Vec<HandoffItem> {
        let notes = self.legs.iter().rev().flat_map(|leg| leg.checkpoints.iter().rev());
        // What workers keep for themselves is nothing of the tree.
        let of_tree = |(name, value): (&Label, &Line)| {
            let own = name.as_str().starts_with(WORKERS_OWN);
            (!own).then(|| format!("{name}: {value}"))
        };
        let told = |one: &CheckpointRecord| -> Vec<String> {
            one.note.git.iter().filter_map(of_tree).collect()
        };
        let found = notes.map(|one| (one, told(one))).find(|(_, lines)| !lines.is_empty());
        let Some((last, lines)) = found else { return vec![] };
        let from = AttemptId { task: self.run.task, number: last.attempt };
        let about = format!("the work tree at checkpoint {}", last.number);
        let item = HandoffItem::new(from.to_string(), about);
        vec![item.at(When(last.at)).quoting(&lines.join("\n"))]
    }

    /// Items that failed and were not done since, as far as the last reports tell.
    fn open_items(&self) -> Option<HandoffSection> {
        let mut open: Vec<(String, HandoffItem)> = vec![];
        let (mut seen, mut failed_ever) = (0, 0);
        for leg in &self.legs {
            failed_ever += u64::from(leg.progress.failed);
            let reports = leg.trail.reports.last.iter();
            for (entry, event) in reports.flat_map(|version| self.said.of(*version)) {
                let Event::Progressed { report } = event else { continue };
                let done: BTreeSet<_> = report.done.iter().map(|item| item.as_str()).collect();
                open.retain(|(item, _)| !done.contains(item.as_str()));
                for failed in &report.failed {
                    seen += 1;
                    open.retain(|(item, _)| *item != failed.item.as_str());
                    let text = format!("{}\nfailed: {}", failed.item, failed.reason);
                    let from = entry.actor.principal.to_string();
                    let item = HandoffItem::new(from, "an item that failed").at(When(entry.at));
                    open.push((failed.item.to_string(), item.quoting(&text)));
                }
            }
        }
        let items = open.into_iter().map(|(_, item)| item).collect();
        HandoffSection::of(Room::OPEN_ITEMS, items, failed_ever.saturating_sub(seen))
    }
}

fn goal(row: &TaskRow) -> HandoffItem {
    let body = row.brief.body.as_ref().map(|body| format!("\n\n{body}")).unwrap_or_default();
    let about = format!("the goal of {}", row.flow.id);
    HandoffItem::new(row.flow.creator.to_string(), about)
        .at(When(row.flow.created_at))
        .quoting(&format!("{}{body}", row.brief.title))
}

fn contract(row: &TaskRow) -> Vec<HandoffItem> {
    let line = |(id, term): (_, &Term)| {
        let (sort, text) = match term {
            Term::Artifact { path, bytes_min, .. } => {
                (format!("a file of at least {bytes_min} bytes"), path.to_string())
            }
            Term::Gate { command, .. } => ("a command that succeeds".into(), command.to_string()),
            Term::Criterion { text, check: None } => ("something true".into(), text.to_string()),
            Term::Criterion { text, check: Some(check) } => {
                ("something true, by a command".into(), format!("{text}\n{check}"))
            }
            Term::Review => ("the agreement of somebody else".into(), String::new()),
        };
        HandoffItem::new("the contract", format!("line {id}, {sort}")).quoting(&text)
    };
    row.brief.contract.lines.iter().map(line).collect()
}

/// How many attempts of a run ended how; one alone speaks for itself.
fn total(leg: &Leg) -> Option<HandoffItem> {
    let count: u64 = leg.trail.ended.values().map(|count| u64::from(*count)).sum();
    let each = leg.trail.ended.iter().map(|(ended, count)| format!("{count} {}", ended.word()));
    let each = each.collect::<Vec<_>>().join(", ");
    let about = format!("{count} attempts ended: {each}");
    (count > 1).then(|| HandoffItem::new(leg.id.to_string(), about))
}

fn reason_of(event: &Event) -> Option<&str> {
    let (Event::Stopping { reason, .. } | Event::AttemptEnded { reason, .. }) = event else {
        return None;
    };
    reason.as_ref().map(|reason| reason.as_str())
}

fn submitted_with(event: &Event) -> Option<&str> {
    let Event::Submitted { summary, .. } = event else { return None };
    summary.as_ref().map(|summary| summary.as_str())
}

fn exchange(said: (&Entry, &Event)) -> Option<HandoffItem> {
    let (entry, event) = said;
    let from = entry.actor.principal.to_string();
    let item =
        |about: &str, text: &str| HandoffItem::new(from, about).at(When(entry.at)).quoting(text);
    if let Event::Asked { question } = event {
        return Some(item("question", question.as_str()));
    }
    let (_, text, unblock) = words::word_of_a_person(said)?;
    Some(item(if unblock { "unblocked" } else { "answer of a person" }, text.as_str()))
}

fn of_receipts(entry: &Entry, event: &Event) -> Vec<HandoffItem> {
    if let Event::Reviewed { review } = event {
        let word = if review.approved { "approves" } else { "rejects" };
        let about = format!("the reviewer {word} it, {} % sure", review.confidence);
        let missing = review.missing.iter().map(|one| format!("\nmissing: {one}"));
        let text = format!("{}{}", review.reason, missing.collect::<String>());
        let item = HandoffItem::new(review.by.to_string(), about).at(When(entry.at));
        return vec![item.quoting(&text)];
    }
    let Event::Verified { receipts, .. } = event else { return vec![] };
    let item = |receipt: &Receipt| {
        let (word, reason) = match &receipt.finding {
            Finding::Holds { .. } => ("holds", ""),
            Finding::Fails { reason, .. } => ("fails", reason.as_str()),
            Finding::Waived { reason } => ("is waived", reason.as_str()),
        };
        let from = entry.actor.principal.to_string();
        HandoffItem::new(from, format!("line {} {word}", receipt.line))
            .at(When(receipt.at))
            .quoting(reason)
    };
    receipts.iter().map(item).collect()
}

fn relative(relative: &Relative) -> HandoffItem {
    let Relative { word, row, result } = relative;
    let result = result.as_ref().map(|text| format!("\nresult: {text}")).unwrap_or_default();
    // Not as of now: the same records always give the same packet.
    let badge = row.flow.badge(row.flow.ended_at.unwrap_or(row.flow.created_at));
    HandoffItem::new(row.flow.id.to_string(), format!("{word}, {}", badge.word()))
        .quoting(&format!("{}{result}", row.brief.title))
}
