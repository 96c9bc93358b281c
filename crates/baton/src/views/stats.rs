//! Counts and ages as callers see them.

use std::collections::BTreeMap;

use baton_domain::explain::Exhausted;
use baton_domain::ids::{Account, ProjectId, StageName};
use baton_domain::time::Millis;
use baton_domain::view::{Badge, Need};
use baton_store::Stats;
use baton_store::read::{Column, RunWord};

use crate::health::{Health, Reason};
use crate::shape::{Span, When, record, words};

/// The most columns that are shown: a board of forty projects; whoever has more asks for one.
const COLUMNS_MAX: usize = 500;

words! {
    /// The stable word for something that is wrong.
    pub enum TroubleCode {
        /// Time does not pass.
        SweepLate = "sweep_late",
        /// A lease should have ended.
        LeaseOverdue = "lease_overdue",
        /// The write-ahead log is not copied back.
        CheckpointLate = "checkpoint_late",
        /// What happened is not signed.
        SealLate = "seal_late",
        /// The history was changed behind our back.
        Tampered = "tampered",
        /// There is no room.
        DiskFull = "disk_full",
        /// The clock of the database was set back.
        ClockBehind = "clock_behind",
        /// The store has stopped.
        Stopped = "stopped",
        /// The store does not say how it is.
        Unreadable = "unreadable",
    }
}

record! {
    /// How many tasks there are, and in which state.
    pub struct StatsView {
        /// Live tasks by project and column.
        #[at_most(COLUMNS_MAX)]
        columns: Vec<ColumnView>,
        /// How many columns are not shown.
        columns_dropped: u64,
        /// Live tasks by badge.
        badges: BTreeMap<Badge, u64>,
        /// Live runs by state.
        runs: BTreeMap<RunWord, u64>,
        /// What waits for a person, by cause; a task may have several.
        needs: BTreeMap<Need, u64>,
        /// Tasks that wait for a person.
        inbox: u64,
        /// Tasks that ended.
        ended: u64,
        /// Claimers that wait for work.
        claims_waiting: u64,
        /// That queued work waits for accounts alone: all that it could be done under are shut.
        exhausted: Option<ExhaustedView>,
        /// Whether there are more than were counted: then every figure is a lower bound.
        more: bool,
    }

    /// Accounts that are all shut, while work is queued.
    pub struct ExhaustedView {
        /// Which.
        accounts: Vec<Account>,
        /// When the first of them opens again; without it, once somebody opens it.
        until: Option<When>,
    }

    /// A column of the board.
    pub struct ColumnView {
        /// Of which project.
        project: ProjectId,
        /// backlog, or a working stage.
        stage: StageName,
        /// Tasks in it.
        count: u64,
    }

    /// How Baton is, in ages: a stuck part shows by growing old.
    pub struct HealthView {
        /// Whether nothing is wrong.
        green: bool,
        /// Everything that is wrong.
        troubles: Vec<TroubleView>,
        /// Since the last commit; quiet is not wrong.
        commit_age: Option<Span>,
        /// Since the write-ahead log was last copied back.
        checkpoint_age: Option<Span>,
        /// Since the last good sweep of this server.
        sweep_age: Span,
        /// Since the last seal, if anything is unsealed.
        seal_age: Option<Span>,
        /// How long the most overdue lease is past its effective end.
        overdue: Span,
        /// Runs of the caller's tenant whose process may still be alive: nobody has proved its end.
        stop_unverified: Option<u64>,
        /// Since an audit last went over the whole history.
        audit_age: Option<Span>,
        /// Entries of all tenants that hold, by the last audit or by the one under way; for whoever
        /// runs the server.
        verified_entries: Option<u64>,
        /// Bytes free where the store is.
        free_bytes: Option<u64>,
        /// Which version of Baton answers.
        version: String,
    }

    /// Something that is wrong.
    pub struct TroubleView {
        /// The stable word.
        code: TroubleCode,
        /// The sentence.
        detail: String,
        /// What to do next, as a command.
        next: String,
    }
}

impl StatsView {
    /// Counts as callers see them.
    #[must_use]
    pub fn of(stats: &Stats, claims_waiting: usize, exhausted: Option<Exhausted>) -> Self {
        let column = |((project, column), count): (&(ProjectId, Column), &u64)| ColumnView {
            project: project.clone(),
            stage: column_word(column),
            count: *count,
        };
        Self {
            columns: stats.columns.iter().take(COLUMNS_MAX).map(column).collect(),
            columns_dropped: stats.columns.len().saturating_sub(COLUMNS_MAX) as u64,
            badges: stats.badges.clone(),
            runs: stats.runs.clone(),
            needs: stats.needs.clone(),
            inbox: stats.inbox,
            ended: stats.ended,
            claims_waiting: claims_waiting as u64,
            exhausted: exhausted.map(ExhaustedView::of),
            more: stats.more,
        }
    }
}

impl ExhaustedView {
    /// The same as callers see it.
    #[must_use]
    pub fn of(found: Exhausted) -> Self {
        let until = found.until.map(When);
        Self { accounts: found.accounts.into_iter().collect(), until }
    }
}

fn column_word(column: &Column) -> StageName {
    let ours = |word| StageName::new(word).expect("a plain word is a name");
    match column {
        Column::Backlog => ours("backlog"),
        Column::Working(name) => name.clone(),
        Column::Done => ours("done"),
        Column::Closed => ours("closed"),
        Column::Archived => ours("archived"),
    }
}

impl HealthView {
    /// How Baton is, without what would tell one tenant of the others: counts over all of them are
    /// for the operator. `stop_unverified` is of the caller's own, if it could be counted.
    #[must_use]
    pub fn of(health: &Health, stop_unverified: Option<u64>, operator: bool) -> Self {
        Self {
            green: health.green,
            troubles: health.reasons.iter().map(TroubleView::of).collect(),
            commit_age: health.commit_age.map(Span),
            checkpoint_age: health.checkpoint_age.map(Span),
            sweep_age: Span(health.sweep_age),
            seal_age: health.seal_age.map(Span),
            overdue: Span(health.overdue),
            stop_unverified,
            audit_age: health.audit_age.map(Span),
            verified_entries: operator.then_some(health.verified_entries),
            free_bytes: health.free_bytes,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

impl TroubleView {
    fn of(reason: &Reason) -> Self {
        let ago = |age: &Millis| Span(*age).to_string();
        // What a store says of its own troubles is for the log, not for callers.
        let (code, detail) = match reason {
            Reason::SweepLate { age } => (
                TroubleCode::SweepLate,
                format!(
                    "time does not pass: the last sweep was {} ago, and no lease ends",
                    ago(age)
                ),
            ),
            Reason::LeaseOverdue { overdue } => (
                TroubleCode::LeaseOverdue,
                format!("a lease should have ended {} ago", ago(overdue)),
            ),
            Reason::CheckpointLate { age } => (
                TroubleCode::CheckpointLate,
                format!("the write-ahead log was last copied back {} ago", ago(age)),
            ),
            Reason::SealLate { age } => {
                (TroubleCode::SealLate, format!("what happened was last signed {} ago", ago(age)))
            }
            Reason::Tampered { position, .. } => (
                TroubleCode::Tampered,
                format!("the history was changed behind our back, at entry {position}"),
            ),
            Reason::DiskFull => {
                (TroubleCode::DiskFull, "there is no room for new work; free some space".to_owned())
            }
            Reason::ClockBehind { behind } => (
                TroubleCode::ClockBehind,
                format!(
                    "the clock of the database is {} behind; time goes on as it was: set it right",
                    ago(behind)
                ),
            ),
            Reason::Stopped { .. } => {
                (TroubleCode::Stopped, "the store has stopped; start the server again".to_owned())
            }
            Reason::Unreadable { .. } => {
                (TroubleCode::Unreadable, "the store does not say how it is".to_owned())
            }
        };
        let next = match reason {
            Reason::DiskFull => "df -h",
            Reason::ClockBehind { .. } => "timedatectl status",
            Reason::Tampered { .. } => "baton audit verify",
            // What to restart, and how, is known on the machine of the server.
            Reason::SweepLate { .. }
            | Reason::LeaseOverdue { .. }
            | Reason::CheckpointLate { .. }
            | Reason::SealLate { .. }
            | Reason::Stopped { .. }
            | Reason::Unreadable { .. } => "baton doctor",
        };
        Self { code, detail, next: next.to_owned() }
    }
}
