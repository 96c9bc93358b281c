//! Why a task is not moving, in sentences and commands.

use baton_domain::explain::{Explained, Hindrance, Remedy};
use baton_domain::ids::{PrincipalId, TaskId};
use baton_domain::pool::PoolName;
use baton_domain::run::{Delay, Purpose, Why};
use baton_domain::task::{Ending, Hold};
use baton_domain::text::Message;
use baton_domain::time::Timestamp;

use crate::health::{Health, Reason};
use crate::shape::{When, record, words};

words! {
    /// The stable word for a reason why a task is not moving.
    pub enum CauseCode {
        /// It is over, and put away.
        Archived = "archived",
        /// It is over.
        Ended = "ended",
        /// It is not published.
        Draft = "draft",
        /// Somebody must agree first.
        AwaitingApproval = "awaiting_approval",
        /// Somebody put it on ice.
        Frozen = "frozen",
        /// Somebody wants to look first.
        ReviewHold = "review_hold",
        /// What it waits for ended otherwise than done.
        DependencyFailed = "dependency_failed",
        /// What it waits for is not done.
        DependencyOpen = "dependency_open",
        /// All its children ended, so many of them otherwise than done.
        ChildrenUndone = "children_undone",
        /// It is done once its children are.
        ChildrenOpen = "children_open",
        /// Nobody has begun it.
        Backlog = "backlog",
        /// Its last run failed.
        Failed = "failed",
        /// Its last run was called off.
        Cancelled = "cancelled",
        /// Its last run ended without a word.
        EndedWithoutResult = "ended_without_result",
        /// Its run is parked.
        Blocked = "blocked",
        /// The same block came back too often: no automatism may unpark it.
        Recurring = "recurring",
        /// It waits for a time.
        Delayed = "delayed",
        /// An agent waits for an answer, until then.
        WaitingForInput = "waiting_for_input",
        /// It is in somebody's hands until then, or longer.
        Held = "held",
        /// What its attempt submitted is being checked.
        Verifying = "verifying",
        /// Its holder does nothing but renew.
        Silent = "silent",
        /// Its attempt is being stopped.
        Stopping = "stopping",
        /// A process was seen that would not die, or the death of these attempts is unproven.
        StopUnverified = "stop_unverified",
        /// Somebody paused this.
        Paused = "paused",
        /// This limit is reached.
        PoolFull = "pool_full",
        /// It is for this one alone, who does not ask for work.
        AssigneeAbsent = "assignee_absent",
        /// Nobody who asks for work can do all this.
        CapabilityMissing = "capability_missing",
        /// People work this stage.
        PersonStage = "person_stage",
        /// Nobody asks for such work.
        NoWorker = "no_worker",
        /// Nobody verifies what was submitted.
        NoVerifier = "no_verifier",
        /// The home of its project, which alone merges, is not there.
        HomeAbsent = "home_absent",
        /// Somebody else must say what they found of what was submitted.
        ReviewOpen = "review_open",
        /// What was submitted names no tree that a worker could check.
        NoTree = "no_tree",
        /// It has queued for longer than it should.
        Starving = "starving",
        /// Nothing stands in its way: it waits for its turn.
        Queued = "queued",
        /// The disk of the server is full.
        DiskFull = "disk_full",
        /// The clock of the database was set back.
        ClockBehind = "clock_behind",
        /// Time does not pass at the server.
        SweepLate = "sweep_late",
    }
}

record! {
    /// One reason why a task is not moving.
    pub struct CauseView {
        /// The stable word.
        code: CauseCode,
        /// The sentence.
        sentence: String,
        /// What whoever raised it said: the question of an agent, why it parked the run, or why somebody paused it.
        words: Option<Message>,
        /// Who raised it, where that is known.
        by: Option<PrincipalId>,
        /// Since when, where that is known.
        since: Option<When>,
        /// When it passes by itself.
        until: Option<When>,
        /// The command that helps.
        command: Option<String>,
    }
}

impl CauseView {
    /// A reason as callers see it.
    #[must_use]
    pub fn of(task: TaskId, explained: &Explained) -> Self {
        Self {
            code: code(&explained.hindrance),
            sentence: sentence(&explained.hindrance),
            words: None,
            by: None,
            since: explained.since.map(When),
            until: until(&explained.hindrance).map(When),
            command: explained.next.as_ref().and_then(|next| command(task, next)),
        }
    }

    /// What is wrong with the server itself, and keeps anything new from being begun.
    #[must_use]
    pub fn of_server(health: &Health) -> Vec<Self> {
        health.reasons.iter().filter_map(of_reason).collect()
    }
}

fn of_reason(reason: &Reason) -> Option<CauseView> {
    let (code, sentence) = match reason {
        Reason::DiskFull => (
            CauseCode::DiskFull,
            "The disk of the server is full: nothing new is begun.".to_owned(),
        ),
        Reason::ClockBehind { behind } => {
            let sentence =
                format!("The clock of the database was set back by {} s.", behind.0 / 1_000);
            (CauseCode::ClockBehind, sentence)
        }
        Reason::SweepLate { .. } => {
            let sentence = "Time does not pass at the server: nothing that is due happens.";
            (CauseCode::SweepLate, sentence.to_owned())
        }
        Reason::LeaseOverdue { .. }
        | Reason::CheckpointLate { .. }
        | Reason::SealLate { .. }
        | Reason::Tampered { .. }
        | Reason::Stopped { .. }
        | Reason::Unreadable { .. } => return None,
    };
    let command = Some("baton doctor".to_owned());
    Some(CauseView { code, sentence, words: None, by: None, since: None, until: None, command })
}

fn code(hindrance: &Hindrance) -> CauseCode {
    match hindrance {
        Hindrance::Archived { .. } => CauseCode::Archived,
        Hindrance::Ended { .. } => CauseCode::Ended,
        Hindrance::Draft => CauseCode::Draft,
        Hindrance::AwaitingApproval => CauseCode::AwaitingApproval,
        Hindrance::Frozen => CauseCode::Frozen,
        Hindrance::ReviewHold => CauseCode::ReviewHold,
        Hindrance::DependencyFailed { .. } => CauseCode::DependencyFailed,
        Hindrance::DependencyOpen { .. } => CauseCode::DependencyOpen,
        Hindrance::ChildrenUndone { .. } => CauseCode::ChildrenUndone,
        Hindrance::ChildrenOpen => CauseCode::ChildrenOpen,
        Hindrance::Backlog => CauseCode::Backlog,
        Hindrance::Failed { .. } => CauseCode::Failed,
        Hindrance::Cancelled => CauseCode::Cancelled,
        Hindrance::EndedWithoutResult => CauseCode::EndedWithoutResult,
        Hindrance::Blocked { .. } => CauseCode::Blocked,
        Hindrance::Recurring => CauseCode::Recurring,
        Hindrance::Delayed { .. } => CauseCode::Delayed,
        Hindrance::WaitingForInput { .. } => CauseCode::WaitingForInput,
        Hindrance::Held { .. } => CauseCode::Held,
        Hindrance::Verifying => CauseCode::Verifying,
        Hindrance::Silent => CauseCode::Silent,
        Hindrance::Stopping => CauseCode::Stopping,
        Hindrance::StopUnverified { .. } => CauseCode::StopUnverified,
        Hindrance::Paused { .. } => CauseCode::Paused,
        Hindrance::PoolFull { .. } => CauseCode::PoolFull,
        Hindrance::AssigneeAbsent { .. } => CauseCode::AssigneeAbsent,
        Hindrance::CapabilityMissing { .. } => CauseCode::CapabilityMissing,
        Hindrance::PersonStage { .. } => CauseCode::PersonStage,
        Hindrance::NoWorker => CauseCode::NoWorker,
        Hindrance::NoVerifier => CauseCode::NoVerifier,
        Hindrance::HomeAbsent { .. } => CauseCode::HomeAbsent,
        Hindrance::ReviewOpen => CauseCode::ReviewOpen,
        Hindrance::NoTree => CauseCode::NoTree,
        Hindrance::Starving => CauseCode::Starving,
        Hindrance::Queued => CauseCode::Queued,
    }
}

fn sentence(hindrance: &Hindrance) -> String {
    match hindrance {
        Hindrance::Archived { how } => format!("It is put away: {}.", ended(how)),
        Hindrance::Ended { how } => format!("It has ended: {}.", ended(how)),
        Hindrance::Draft => "It is a draft: nothing happens to it before it is published.".into(),
        Hindrance::AwaitingApproval => "Somebody must agree before it is executed.".into(),
        Hindrance::Frozen => "Somebody put it on ice.".into(),
        Hindrance::ReviewHold => "Somebody wants to look at it before it goes on.".into(),
        Hindrance::DependencyFailed { on } => {
            format!("It waits for {on}, which ended otherwise than done.")
        }
        Hindrance::DependencyOpen { on } => format!("It waits for {on}, which is not done."),
        Hindrance::ChildrenUndone { count } => {
            format!("All its children have ended, {count} of them otherwise than done.")
        }
        Hindrance::ChildrenOpen => "It is done once its children are.".into(),
        Hindrance::Backlog => "It is in the backlog: nobody has begun it.".into(),
        Hindrance::Failed { why } => format!("Its last run failed: {why}."),
        Hindrance::Cancelled => "Its last run was called off.".into(),
        Hindrance::EndedWithoutResult => "Its last run ended without a word.".into(),
        Hindrance::Blocked { block } => blocked(block),
        Hindrance::Recurring => {
            "The same block came back too often: only a person may unpark it.".into()
        }
        Hindrance::Delayed { why, .. } => delayed(*why).into(),
        Hindrance::WaitingForInput { .. } => "Its agent asked something and waits.".into(),
        Hindrance::Held { attempt, holder, purpose, .. } => {
            let doing = match purpose {
                Purpose::Work => "works on it",
                Purpose::Verify => "verifies it",
                Purpose::Merge => "merges it",
                Purpose::Probe => "tries whether its block is gone",
            };
            format!("{holder} {doing} as {attempt}.")
        }
        Hindrance::Verifying => "What was submitted is being checked.".into(),
        Hindrance::Silent => "Its holder does nothing but renew its lease.".into(),
        Hindrance::Stopping => "Its attempt is being stopped.".into(),
        Hindrance::StopUnverified { attempts } if attempts.is_empty() => {
            "A process of its attempt was seen that would not die.".into()
        }
        Hindrance::StopUnverified { attempts } => {
            let numbers: Vec<_> = attempts.iter().map(ToString::to_string).collect();
            match &numbers[..] {
                [one] => format!("Nobody proved that attempt {one} is dead."),
                several => format!("Nobody proved that attempts {} are dead.", several.join(", ")),
            }
        }
        Hindrance::Paused { pool, .. } => format!("Somebody paused {pool}."),
        Hindrance::PoolFull { pool, .. } => format!("The limit of {pool} is reached."),
        Hindrance::AssigneeAbsent { assignee } => {
            format!("It is for {assignee} alone, who does not wait for work now.")
        }
        Hindrance::CapabilityMissing { needs } => {
            let needs: Vec<_> = needs.iter().map(ToString::to_string).collect();
            format!("Nobody who waits for work can do {}.", needs.join(", "))
        }
        Hindrance::PersonStage { stage } => format!("People work the stage {stage}."),
        Hindrance::NoWorker => "Nobody waits for such work now.".into(),
        Hindrance::NoVerifier => "Nobody verifies what was submitted.".into(),
        Hindrance::HomeAbsent { home } => {
            format!("{home} is the home of its project and alone merges; it is not there.")
        }
        Hindrance::ReviewOpen => "Its commands passed, and nobody has reviewed it.".into(),
        Hindrance::NoTree => {
            "What was submitted names no tree, so that no worker can check it.".into()
        }
        Hindrance::Starving => "It has queued for longer than it should.".into(),
        Hindrance::Queued => "Nothing stands in its way: it waits for its turn.".into(),
    }
}

fn delayed(why: Delay) -> &'static str {
    match why {
        Delay::Scheduled => "It starts at a time that somebody chose.",
        Delay::Backoff => "It pauses after a failure.",
        Delay::RateLimit => "It waits for a limit to reset.",
        Delay::Target => {
            "Nobody may move the target branch now: its checkout has changes of its own."
        }
    }
}

fn ended(how: &Ending) -> String {
    match how {
        Ending::Done { verified: true } => "done".into(),
        Ending::Done { verified: false } => "done, unverified".into(),
        Ending::Abandoned { reason } => format!("abandoned ({reason})"),
        Ending::Superseded { by, reason } => format!("superseded by {by} ({reason})"),
        Ending::Rejected { reason } => format!("rejected ({reason})"),
    }
}

fn blocked(why: &Why) -> String {
    match why {
        Why::NeedsInput => "Its run is parked until somebody answers.".into(),
        Why::Capability { needs } => {
            format!("Its run is parked until somebody takes it who can do {needs}.")
        }
        Why::Transient { .. } => "Its run is parked for a while.".into(),
        Why::Dependency { on } => format!("Its run is parked until {on} is done."),
        Why::Limit { cap } => format!("Its run is parked: it reached `{}`.", cap.knob()),
    }
}

fn until(hindrance: &Hindrance) -> Option<Timestamp> {
    match hindrance {
        Hindrance::Delayed { until, .. }
        | Hindrance::Blocked { block: Why::Transient { until } } => Some(*until),
        Hindrance::WaitingForInput { until }
        | Hindrance::Held { until, .. }
        | Hindrance::Paused { until, .. }
        | Hindrance::PoolFull { until, .. } => *until,
        Hindrance::Archived { .. }
        | Hindrance::Ended { .. }
        | Hindrance::Draft
        | Hindrance::AwaitingApproval
        | Hindrance::Frozen
        | Hindrance::ReviewHold
        | Hindrance::DependencyFailed { .. }
        | Hindrance::DependencyOpen { .. }
        | Hindrance::ChildrenUndone { .. }
        | Hindrance::ChildrenOpen
        | Hindrance::Backlog
        | Hindrance::Failed { .. }
        | Hindrance::Cancelled
        | Hindrance::EndedWithoutResult
        | Hindrance::Blocked { .. }
        | Hindrance::Recurring
        | Hindrance::Verifying
        | Hindrance::Silent
        | Hindrance::Stopping
        | Hindrance::StopUnverified { .. }
        | Hindrance::AssigneeAbsent { .. }
        | Hindrance::CapabilityMissing { .. }
        | Hindrance::PersonStage { .. }
        | Hindrance::NoWorker
        | Hindrance::NoVerifier
        | Hindrance::HomeAbsent { .. }
        | Hindrance::ReviewOpen
        | Hindrance::NoTree
        | Hindrance::Starving
        | Hindrance::Queued => None,
    }
}

/// The remedy as a command; none where nothing that exists yet helps.
fn command(task: TaskId, next: &Remedy) -> Option<String> {
    Some(match next {
        Remedy::Publish => format!("baton task publish {task}"),
        Remedy::Approve => format!("baton task approve {task}"),
        Remedy::Unhold { hold: Hold::Frozen } => {
            format!("baton task unfreeze {task} --reason \"…\"")
        }
        Remedy::Unhold { hold: Hold::Review } => format!("baton task unhold {task} --reason \"…\""),
        Remedy::Undepend { on } => format!("baton task undepend {task} {on}"),
        Remedy::Show { task } => format!("baton explain {task}"),
        Remedy::Move { to } => format!("baton task move {task} --stage {to}"),
        Remedy::Retry => format!("baton run retry {task} --reason \"…\""),
        Remedy::Close => format!("baton task close {task} --reason \"…\""),
        Remedy::Answer => format!("baton answer {task} \"…\""),
        Remedy::Unblock => format!("baton run unblock {task} --reason \"…\""),
        Remedy::Release => format!("baton run force-release {task} --reason \"…\""),
        Remedy::Take => format!("baton run claim --task {task}"),
        Remedy::PickUp { needs } => {
            format!("baton run claim --task {task} --capabilities {needs} --blocked")
        }
        Remedy::RaiseCap { cap } => {
            let knob = cap.knob().trim_start_matches("policy.");
            format!("baton task edit {task} --policy '{{\"{knob}\": …}}'")
        }
        Remedy::RaiseLimit { pool } if pool.is_money() => {
            format!("baton pool set \"{pool}\" --money …")
        }
        Remedy::RaiseLimit { pool } => format!("baton pool set \"{pool}\" --limit …"),
        Remedy::Resume { pool } => resume(pool),
        Remedy::ClearAssignee => format!("baton task edit {task} --clear assignee"),
        // Whoever has agents here has them begin; of others it is not known what they are able to do.
        Remedy::StartWorker { capabilities } if capabilities.is_empty() => {
            "baton up --detach".into()
        }
        Remedy::StartWorker { capabilities } => {
            let able = capabilities.iter().map(|able| format!(" --capabilities {able}"));
            format!("baton run claim{}", able.collect::<String>())
        }
        Remedy::StartVerifier => "baton work".to_owned(),
        Remedy::Review => format!("baton review {task} approve \"…\""),
        Remedy::Waive => format!("baton run waive {task} --reason \"…\""),
    })
}

fn resume(pool: &PoolName) -> String {
    match pool {
        PoolName::Scheduler => "baton scheduler resume".into(),
        PoolName::Project(project) => format!("baton scheduler resume --project {project}"),
        PoolName::Stage(project, stage) => {
            format!("baton scheduler resume --project {project} --stage {stage}")
        }
        PoolName::Tree(task) => format!("baton scheduler resume --task {task}"),
        PoolName::Account(account) => format!("baton scheduler resume --account {account}"),
        PoolName::Holder(_)
        | PoolName::Key(..)
        | PoolName::Role(_)
        | PoolName::Budget(_)
        | PoolName::ProjectBudget(_)
        | PoolName::ProjectDayBudget(_)
        | PoolName::DayBudget => "baton pool list".into(),
    }
}

#[cfg(test)]
mod tests;
