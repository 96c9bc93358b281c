//! What a task looks like in every history, whatever happened to it.

use std::collections::BTreeSet;

use baton_domain::command::{Command, Person};
use baton_domain::event::Event;
use baton_domain::history::Past;
use baton_domain::lane::Lane;
use baton_domain::limits::{DEPENDENCIES_MAX, FLOW_BYTES_MAX, LINEAGE_MAX, UNPROVEN_MAX};
use baton_domain::refusal::Refusal;
use baton_domain::run::{Finish, Mode, RunResult};
use baton_domain::scene::Decision;
use baton_domain::task::{Ending, Flow, Kind, Stage};
use baton_domain::view::Badge;

use crate::history::{after_every_history, in_every_history};

#[test]
fn a_claim_succeeds_exactly_where_a_lane_admits_it() {
    in_every_history(|| {
        |world, turn| {
            let (Command::Claim(claim), Some(task)) = (turn.command, &turn.task) else { return };
            let open = |lane: &Lane| lane.is_open_to(&claim.claimant, &world.project);
            let takes = |lane: &Lane| lane.admits(&claim.claimant) && open(lane);
            let admitted = task.flow.lanes().iter().any(takes);
            match &turn.answer {
                Ok(_) => assert!(admitted),
                Err(Refusal::PoolFull { .. } | Refusal::Paused { .. }) => assert!(admitted),
                Err(refusal) => assert!(!admitted, "{refusal}"),
            }
        }
    });
}

#[test]
fn nothing_is_done_as_proven_without_a_verified_run_of_every_stage() {
    after_every_history(|world| {
        let proven = Ending::Done { verified: true };
        for (id, task) in &world.tasks {
            if task.flow.ending() != Some(&proven) || task.flow.kind == Kind::Epic {
                continue;
            }
            let verified: BTreeSet<_> = world.records[id]
                .iter()
                .filter_map(|row| match row {
                    Past::Run(run) => Some(run),
                    Past::Attempt(_) | Past::Checkpoint(_) => None,
                })
                .filter(|run| run.finish == Finish::Completed)
                .filter(|run| run.result == Some(RunResult::Verified))
                .map(|run| &run.stage)
                .collect();
            let stages = world.project.pipeline.iter().map(|spec| &spec.name).collect();
            assert_eq!(verified, stages, "{id}");
        }
    });
}

#[test]
fn a_flow_never_contradicts_itself_nor_grows() {
    in_every_history(|| {
        |world, turn| {
            let Some(task) = world.tasks.get(&turn.id) else { return };
            let flow = &task.flow;
            if flow.ending().is_some() {
                assert!(flow.run.is_none() && flow.owed.is_none() && flow.ended_at.is_some());
            }
            if flow.draft || flow.kind == Kind::Epic || flow.stage == Stage::Backlog {
                assert_eq!(flow.run, None);
            }
            if let (Some(run), Stage::Working(stage)) = (&flow.run, &flow.stage) {
                assert_eq!(run.stage, *stage);
                assert!(run.depth <= LINEAGE_MAX && run.previous.is_none_or(|n| n < run.number));
            }
            assert!(flow.waits_for.len() <= DEPENDENCIES_MAX);
            assert!(flow.unproven.len() <= UNPROVEN_MAX);
            let bytes = serde_json::to_string(flow).expect("a flow is text").len();
            assert!(bytes <= FLOW_BYTES_MAX, "{bytes} bytes");
        }
    });
}

#[test]
fn a_solo_attempt_never_stops_and_a_supervised_one_always_does_before_it_fails_or_blocks() {
    in_every_history(|| {
        |world, turn| {
            let held = |flow: &Flow| flow.run.as_ref().and_then(|run| run.held()).cloned();
            if let Some(held) = world.tasks.get(&turn.id).and_then(|task| held(&task.flow)) {
                let watched = held.mode == Mode::Supervised;
                assert!(watched || !matches!(held.phase.word(), "stopping" | "verifying"));
            }
            let before = turn.task.as_ref().and_then(|task| held(&task.flow));
            let (Some(before), Ok(decision)) = (before, &turn.answer) else { return };
            let by_agent = matches!(turn.command, Command::Agent(..));
            let ended = decision.events.iter().any(|e| matches!(e, Event::AttemptEnded { .. }));
            if by_agent && before.mode == Mode::Supervised {
                assert!(!ended, "an agent's word ended a watched attempt at once");
            }
        }
    });
}

#[test]
fn a_badge_that_asks_for_somebody_says_what_for() {
    in_every_history(|| {
        |world, turn| {
            let Some(task) = world.tasks.get(&turn.id) else { return };
            let needs = task.flow.needs(world.now);
            let asks = match task.flow.badge(world.now) {
                Badge::NeedsYou
                | Badge::WaitingForInput
                | Badge::Silent
                | Badge::StopUnverified
                | Badge::Failed
                | Badge::EndedWithoutResult => true,
                Badge::Draft
                | Badge::Waiting
                | Badge::Queued
                | Badge::Delayed
                | Badge::Running
                | Badge::Blocked
                | Badge::Verifying
                | Badge::InMergeQueue
                | Badge::MergeFailed
                | Badge::Stopping
                | Badge::Frozen
                | Badge::Review
                | Badge::Done
                | Badge::DoneUnverified
                | Badge::Abandoned
                | Badge::Superseded
                | Badge::Rejected
                | Badge::Archived => false,
            };
            assert!(!asks || !needs.is_empty(), "{:?}", task.flow.badge(world.now));
        }
    });
}

/// Nothing that a person says to one task is lost by being said twice.
#[test]
fn saying_the_same_thing_twice_never_harms() {
    in_every_history(|| {
        |world, turn| {
            let (Command::Person(says), Ok(_)) = (turn.command, &turn.answer) else { return };
            let mut twin = world.twin();
            let repeated = twin.person(turn.id, says.clone());
            let harmless = match says {
                Person::Edit(_) => true,
                Person::Publish
                | Person::Approve
                | Person::Move { .. }
                | Person::Hold { .. }
                | Person::Archive
                | Person::Depend { .. }
                | Person::Close(_)
                | Person::Cancel(_)
                | Person::Release(_)
                | Person::Fail { .. }
                | Person::Answer(_)
                | Person::Unblock(_)
                | Person::Review(_)
                | Person::Waive(_)
                | Person::Retry(_) => {
                    repeated.as_ref().is_ok_and(Decision::is_nothing) || repeated.is_err()
                }
            };
            assert!(harmless, "{says:?}: {repeated:?}");
        }
    });
}
