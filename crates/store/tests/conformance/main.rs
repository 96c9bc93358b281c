//! What every store must do. The cases know nothing of the store under test; each runs against a
//! fresh one of every backend, under a name like `memory::a_refused_order_leaves_no_trace`.

mod backend;
mod blocks;
mod channels;
mod claims;
mod contracts;
mod crowds;
mod differential;
mod dump;
mod entries;
mod graph;
mod keys;
mod laws;
mod leases;
mod outside;
mod pools;
mod reads;
mod records;
mod requests;
mod restarts;
mod script;
mod speech;
mod sweeps;
mod tasks;
mod words;
mod world;

use backend::Backend;
use world::World;

/// Runs a case against a fresh store; whatever the case did, the laws hold.
fn run(backend: impl Backend, case: impl AsyncFnOnce(&World)) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.expect("threads are to be had").block_on(async {
        let world = World::begin(backend).await;
        case(&world).await;
        world.check_laws().await;
    });
}

/// Makes one test of every case for a backend, which is an expression that makes a fresh place.
macro_rules! conformance {
    ($backend:ident: $open:expr) => {
        mod $backend {
            #[test]
            fn a_random_history_matches_the_model() {
                crate::differential::a_random_history_matches_the_model(|| $open);
            }

            conformance! {
                $open;
                tasks:
                    a_committed_task_reads_as_it_was_written
                    a_task_changed_in_every_field_reads_as_it_was_changed
                    tasks_are_numbered_without_gaps
                    tasks_born_at_once_are_numbered_without_gaps
                    unknown_ids_leave_no_trace
                    a_foreign_id_looks_like_a_missing_one
                    tenants_have_the_same_numbers_and_share_nothing
                    a_refused_order_leaves_no_trace
                    the_first_refusal_refuses_the_whole_order
                    the_commands_of_one_order_are_one_entry
                    asking_for_what_is_so_already_changes_nothing
                    an_edit_of_an_old_version_is_refused
                    lists_show_what_they_are_asked_for
                    lists_come_in_pages
                    everything_is_there_again_after_a_restart;
                requests:
                    a_repeated_request_gets_the_same_answer
                    what_a_request_was_for_is_told_to_whoever_asked_it
                    a_repeated_request_shows_the_task_as_it_is_now
                    a_repeated_request_is_told_of_its_own_run
                    a_repeated_pause_is_answered_although_its_time_is_over
                    a_key_used_for_something_else_is_refused
                    a_key_belongs_to_one_principal_and_one_tenant
                    a_refused_order_does_not_burn_its_key
                    an_order_that_changed_nothing_is_known_again
                    a_repeated_record_order_is_carried_out_once
                    a_repeated_claim_shows_its_lease_while_it_lives
                    a_repeated_claim_never_shows_another_lease
                    of_racing_repeats_one_is_carried_out
                    a_request_is_known_again_after_a_restart
                    a_completion_is_counted_once_however_often_it_is_sent;
                claims:
                    a_hundred_claimers_of_ten_runs_make_ten_winners
                    of_two_pick_ups_of_a_blocked_run_one_wins
                    a_key_limit_is_never_exceeded
                    a_full_holder_is_told_what_it_holds
                    a_full_account_is_no_lack_of_work
                    what_others_work_does_not_hide_what_is_behind_it
                    a_lane_is_first_in_first_out
                    priority_is_a_head_start_and_age_wins_in_the_end
                    a_claim_takes_only_what_it_asks_for
                    whatever_is_paused_is_skipped
                    a_pause_ends_by_itself_when_its_time_comes
                    a_full_lane_does_not_hide_the_others
                    a_spent_budget_hides_one_task_and_not_the_next_of_its_lane
                    an_assigned_task_is_for_its_assignee_alone
                    a_claimer_needs_every_capability_of_a_task
                    nobody_claims_what_is_not_ready
                    a_claim_for_an_unreasonable_time_is_told_so;
                pools:
                    a_limit_set_later_counts_what_is_taken_already
                    a_pause_set_later_counts_what_is_taken_already
                    a_changed_limit_never_leaks_a_slot
                    a_pause_stops_who_claims_what_was_just_made_or_moved
                    what_stops_one_task_alone_stops_whoever_takes_the_next
                    more_money_lets_go_on_what_the_budget_had_parked
                    agents_of_one_name_share_a_limit
                    money_that_was_spent_stays_spent
                    money_that_nobody_has_stops_its_spender_and_every_claim
                    money_of_a_project_and_of_a_day_is_reserved_and_stays_spent
                    money_of_a_day_is_there_again_the_next_day
                    a_limit_that_is_so_already_leaves_no_entry
                    a_pool_that_limits_nothing_is_forgotten_once_nothing_is_taken
                    there_are_only_so_many_pools_and_projects
                    every_way_to_end_gives_back_what_was_taken
                    pools_are_conserved_whatever_happens;
                leases:
                    parking_clears_holder_lease_and_nonce
                    an_expired_lease_frees_the_run
                    an_expired_holder_is_refused_even_before_the_sweep
                    a_stale_holder_is_refused_everywhere
                    a_late_proof_of_death_lifts_the_quarantine
                    renewals_leave_no_entry_and_no_version
                    what_was_heard_is_not_heard_again
                    a_late_snapshot_joins_history_and_changes_nothing_else
                    a_renewed_lease_lives_on
                    a_lease_is_as_long_as_it_was_asked_for
                    nobody_loses_a_lease_to_a_silence_of_all_servers
                    whoever_is_heard_first_after_a_silence_holds_still
                    an_amnesty_ends_by_itself
                    a_short_pause_between_sweeps_brings_no_amnesty
                    a_stopping_attempt_counts_as_its_verdict_when_its_lease_ends
                    a_second_sweep_finds_nothing
                    a_bounded_sweep_tells_what_it_left
                    what_was_due_first_happens_first_and_then_what_is_owed
                    of_a_completion_and_an_expiry_one_counts
                    a_sweep_is_by_the_clock_itself;
                blocks:
                    a_lost_pick_up_is_blocked_as_before_with_both_checkpoints
                    a_lost_pick_up_does_not_count_as_a_recurrence
                    a_blocked_run_has_no_queued_twin
                    an_answer_queues_a_run_that_needs_input
                    a_question_that_nobody_answers_parks_the_run
                    a_missing_capability_is_found_by_whoever_has_it
                    a_transient_block_ends_once_across_a_jump_of_time
                    a_block_that_keeps_coming_back_is_for_a_person_alone
                    too_many_endings_without_result_park_the_run
                    losses_are_nobodys_fault_and_have_a_cap_of_their_own
                    failures_back_off_and_end_in_a_failed_run
                    freeze_and_unfreeze_is_the_identity_in_every_state
                    a_stage_passed_under_a_hold_is_left_at_the_last_unhold;
                contracts:
                    a_refused_completion_lists_all_that_is_missing_and_changes_nothing
                    a_submission_is_done_once_somebody_else_has_checked_it
                    a_rejected_submission_is_queued_again
                    the_last_receipt_of_a_line_is_found_however_old_it_is
                    a_submission_that_was_parked_at_a_cap_is_the_same_when_it_is_unblocked
                    a_checker_that_dies_leaves_the_submission_as_it_was
                    a_supervised_completion_is_checked_under_its_own_lease
                    a_probe_returns_to_the_same_block_or_frees_the_run;
                graph:
                    a_dependant_runs_once_what_it_waits_for_is_done
                    two_blockers_at_once_give_one_run
                    sweeps_at_once_tell_everything_once
                    a_task_is_promoted_once
                    a_promotion_under_a_hold_happens_at_the_unhold
                    only_what_was_done_satisfies
                    what_is_done_already_is_met_at_once
                    a_circle_is_refused
                    a_circle_through_the_children_of_an_epic_is_refused
                    racing_edges_never_close_a_circle
                    a_dependency_stays_inside_its_project
                    a_run_blocked_by_a_task_goes_on_when_that_is_done
                    an_epic_is_done_with_its_children
                    an_epic_with_a_child_that_was_not_done_asks_a_person
                    whoever_made_a_task_is_woken_by_its_end
                    an_ended_task_is_told_nothing
                    an_ended_task_waits_for_nothing
                    what_arose_first_is_told_first
                    a_task_has_only_so_many_dependants
                    every_dependant_is_told_however_small_the_sweeps
                    a_tree_has_bounds
                    a_held_dependant_is_not_disturbed;
                entries:
                    a_reader_with_a_cursor_misses_nothing
                    entries_come_in_pages
                    a_cursor_of_another_life_has_expired
                    a_tenant_without_anything_reads_as_empty
                    positions_are_counted_per_tenant
                    the_entries_of_a_task_begin_where_they_are_asked_to
                    an_entry_tells_who_did_what_and_when
                    state_and_entry_are_there_together_after_a_restart
                    an_untouched_store_passes_its_audit
                    two_seals_at_once_leave_the_audit_whole
                    health_counts_and_ages;
                sweeps:
                    an_ended_lease_goes_before_whatever_else_is_due
                    tenants_take_turns_in_a_small_sweep
                    what_is_owed_gets_its_share_of_a_sweep
                    tenants_take_turns_in_what_is_owed
                    only_a_lease_is_overdue;
                reads:
                    a_list_shows_what_every_filter_asks_for
                    the_inbox_is_what_waits_for_a_person
                    runs_are_listed_live_and_finished
                    a_run_is_shown_with_its_attempts_and_checkpoints
                    a_history_of_any_length_comes_in_pages
                    a_row_of_a_history_is_found_by_its_number
                    entries_of_a_task_are_found_by_their_versions
                    counts_tell_what_is_where
                    projects_and_pools_come_in_pages
                    whoever_reads_a_task_can_follow_from_there
                    a_cursor_ahead_of_everything_has_expired
                    a_store_keeps_its_names;
                records:
                    a_project_reads_as_it_was_written
                    a_malformed_project_is_refused
                    an_occupied_stage_cannot_be_lost
                    a_changed_pipeline_is_followed_from_then_on
                    a_project_with_live_tasks_cannot_be_removed
                    ended_tasks_are_put_away_in_time
                    a_shorter_keeping_time_counts_for_what_ended_before
                    every_pool_order_is_an_entry
                    whatever_becomes_claimable_rings_the_bell
                    whatever_is_written_rings_the_bell;
                keys:
                    a_key_reads_as_it_was_made
                    a_key_is_found_by_its_id_alone_and_tells_its_tenant
                    an_id_is_given_once_over_all_tenants
                    an_exchanged_secret_is_kept_with_the_one_before
                    revoking_a_key_takes_along_what_it_made
                    keys_come_in_pages
                    tenants_come_in_pages_by_their_names
                    a_use_leaves_no_entry_and_never_goes_back
                    a_repeated_creation_is_carried_out_once
                    a_request_for_another_tenant_is_known_where_it_was_asked
                    a_refused_key_leaves_no_trace
                    there_are_only_so_many_tenants;
                channels:
                    a_channel_reads_as_it_was_added
                    of_many_who_carry_on_a_channel_one_does
                    a_channel_that_is_added_again_is_another
                    a_channel_is_its_tenants_own
                    there_are_only_so_many_channels;
                crowds:
                    whatever_many_ask_at_once_the_laws_hold
                    a_limit_holds_at_every_moment_whoever_claims;
            }
        }
    };
    ($open:expr; $($area:ident: $($case:ident)*;)*) => {$($(
        #[test]
        fn $case() {
            crate::run($open, crate::$area::$case);
        }
    )*)*};
}

conformance!(memory: crate::backend::Memory);
conformance!(sqlite: crate::backend::Sqlite::fresh());
conformance!(postgres: crate::backend::Postgres::fresh());

/// Where a second server could make a difference. What a bell rings and what a gauge shows is one
/// server's own.
mod two_servers {
    #[test]
    fn a_random_history_matches_the_model() {
        use crate::backend::Postgres;
        crate::differential::a_random_history_matches_the_model(Postgres::of_two_servers);
    }

    conformance! {
        crate::backend::Postgres::of_two_servers();
        tasks:
            tasks_born_at_once_are_numbered_without_gaps
            everything_is_there_again_after_a_restart;
        requests:
            a_repeated_request_gets_the_same_answer
            a_key_used_for_something_else_is_refused
            of_racing_repeats_one_is_carried_out
            a_completion_is_counted_once_however_often_it_is_sent;
        claims:
            a_hundred_claimers_of_ten_runs_make_ten_winners
            of_two_pick_ups_of_a_blocked_run_one_wins
            a_key_limit_is_never_exceeded
            a_full_lane_does_not_hide_the_others
            whatever_is_paused_is_skipped;
        pools:
            a_limit_set_later_counts_what_is_taken_already
            a_changed_limit_never_leaks_a_slot
            a_pause_stops_who_claims_what_was_just_made_or_moved
            more_money_lets_go_on_what_the_budget_had_parked
            agents_of_one_name_share_a_limit
            pools_are_conserved_whatever_happens;
        leases:
            an_expired_lease_frees_the_run
            a_stale_holder_is_refused_everywhere
            nobody_loses_a_lease_to_a_silence_of_all_servers
            whoever_is_heard_first_after_a_silence_holds_still
            of_a_completion_and_an_expiry_one_counts;
        graph:
            two_blockers_at_once_give_one_run
            sweeps_at_once_tell_everything_once
            racing_edges_never_close_a_circle
            a_task_is_promoted_once;
        entries:
            a_reader_with_a_cursor_misses_nothing
            two_seals_at_once_leave_the_audit_whole;
        records:
            an_occupied_stage_cannot_be_lost
            a_changed_pipeline_is_followed_from_then_on;
        keys:
            an_id_is_given_once_over_all_tenants
            a_repeated_creation_is_carried_out_once;
        channels: of_many_who_carry_on_a_channel_one_does;
        crowds:
            whatever_many_ask_at_once_the_laws_hold
            a_limit_holds_at_every_moment_whoever_claims;
    }
}

/// Where a pooler could make a difference: what is prepared, set or locked must not outlive its
/// transaction.
mod pooled {
    conformance! {
        crate::backend::Postgres::through_a_pooler();
        tasks: everything_is_there_again_after_a_restart;
        requests: of_racing_repeats_one_is_carried_out;
        claims: a_hundred_claimers_of_ten_runs_make_ten_winners;
        graph: racing_edges_never_close_a_circle;
        entries: a_reader_with_a_cursor_misses_nothing two_seals_at_once_leave_the_audit_whole;
        reads: a_list_shows_what_every_filter_asks_for counts_tell_what_is_where;
        keys: a_key_reads_as_it_was_made;
        crowds: whatever_many_ask_at_once_the_laws_hold;
    }
}
