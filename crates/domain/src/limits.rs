//! Every bound that the rules keep, named once.

use crate::time::Millis;

/// The hot row of a task as text, with everything in it at its bound; an everyday one is a fifth.
pub const FLOW_BYTES_MAX: usize = 6_960;
/// How much of the reason for an ending stays in the hot row; its entry has the whole.
pub const REASON_KEPT_BYTES_MAX: usize = 96;
/// Dependencies that one task may declare.
pub const DEPENDENCIES_MAX: usize = 32;
/// Ancestors that one task may have.
pub const DEPTH_MAX: usize = 8;
/// Children that one task may have.
pub const CHILDREN_MAX: usize = 64;
/// Tasks that may wait for one task: what its end has to tell in one transaction.
pub const DEPENDANTS_MAX: usize = 256;
/// Tasks that a cycle check may walk; a wider graph is refused rather than searched for ever.
pub const UPSTREAM_MAX: usize = 4_096;
/// Capabilities that a task may need or a holder may offer.
pub const CAPABILITIES_MAX: usize = 8;
/// Labels of one task.
pub const LABELS_MAX: usize = 16;
/// Runs that may follow one another by retry.
pub const LINEAGE_MAX: u8 = 10;
/// How often the same kind of block may come back before only a person may unpark it.
pub const RECURRENCE_MAX: u8 = 2;
/// Failed rounds of verification in one attempt.
pub const ROUNDS_MAX: u8 = 3;
/// Reviews that may reject one run.
pub const REVIEWS_MAX: u8 = 3;
/// Things that one review may miss.
pub const MISSING_MAX: usize = 20;
/// Changed paths that a verdict names for a reviewer; there may be more, and one is enough.
pub const GUARDED_MAX: usize = 20;
/// Items that one progress report may add, done and failed together.
pub const ITEMS_MAX: usize = 100;
/// Entries of one sort that a run can be asked for by their versions: what a hand-off quotes of it.
pub const TRAIL_MAX: usize = 8;
/// Evidence that one checkpoint may point to.
pub const EVIDENCE_MAX: usize = 50;
/// Lines of a contract.
pub const LINES_MAX: usize = 64;
/// Stars of one pattern of paths: more than any folder is deep.
pub const STARS_MAX: usize = 16;
/// Artifacts of a submission.
pub const ARTIFACTS_MAX: usize = 256;
/// Attempts whose death is unproven, remembered until a late proof comes.
pub const UNPROVEN_MAX: usize = 8;
/// Attempts back from the last one whose cost may still be told after their end.
pub const LATE_ATTEMPTS_MAX: u32 = 4;
/// Projects of one tenant.
pub const PROJECTS_MAX: usize = 512;
/// Pools that a tenant may have set at once: all of them are kept in memory.
pub const POOLS_MAX: usize = 2_048;
/// Checkpoints of one run: one a minute for a week.
pub const CHECKPOINTS_MAX: u32 = 10_000;
/// Items that the reports of one run may add up to, done and failed together.
pub const PROGRESS_MAX: u32 = 1_000_000;
/// Events that one attempt may make in a minute: far more than work makes, and little enough that a
/// loop does not bury the history of its task.
pub const EVENTS_PER_MINUTE_MAX: u16 = 10_000;
/// Working stages of a pipeline.
pub const STAGES_MAX: usize = 12;
/// Live keys of one tenant: a key for every agent of a large fleet.
pub const KEYS_MAX: usize = 1_000;
/// Revoked and expired keys of one tenant that are remembered; their entries stay.
pub const DEAD_KEYS_MAX: usize = 1_000;
/// Channels of one tenant: more than one person looks at, for a few teams.
pub const CHANNELS_MAX: usize = 16;
/// How long a channel may wait before it tells: later is no notice any more.
pub const CHANNEL_DELAY_MAX: Millis = Millis::hours(24);
/// How far a channel is, as text: what waits to be told, and what was told and still stands.
pub const CHANNEL_PROGRESS_BYTES_MAX: usize = 256 << 10;
/// Scopes of one key: more than there are operations to guard.
pub const SCOPES_MAX: usize = 64;
/// Tenants of one store: whoever has more wants more stores.
pub const TENANTS_MAX: usize = 1_024;
/// Commands in one order.
pub const COMMANDS_MAX: usize = 4;

/// How far ahead a start may be chosen.
pub const START_AHEAD_MAX: Millis = Millis::hours(24 * 366);
/// The longest that a gate may take.
pub const GATE_MAX: Millis = Millis::hours(24);
/// The longest that an attempt, a question or a queue may be allowed to take.
pub const SPAN_MAX: Millis = Millis::hours(24 * 30);
/// The most that one attempt may reserve: a billion currency units.
pub const BUDGET_MICROS_MAX: u64 = 1_000_000_000_000_000;
/// The most turns, calls of tools or tokens that one attempt may be allowed.
pub const CALLS_MAX: u64 = 1_000_000_000;
/// How long a holder may park or delay a run by time alone.
pub const PARKED_MAX: Millis = Millis::hours(24 * 30);
/// The longest that a key may live.
pub const KEY_LIFETIME_MAX: Millis = Millis::hours(24 * 366);
/// The longest that the secret before opens a key after an exchange.
pub const KEY_OVERLAP_MAX: Millis = Millis::hours(24 * 7);
/// The longest lease that may be asked for.
pub const LEASE_MAX: Millis = Millis::hours(24);
/// The shortest lease that may be asked for.
pub const LEASE_MIN: Millis = Millis::seconds(1);
/// How long leases live on after a silence of all servers, so that holders can renew.
pub const AMNESTY: Millis = Millis::seconds(60);
/// A pause between two sweeps longer than this was an outage and brings the amnesty.
pub const SILENCE_MAX: Millis = Millis::seconds(5);
/// A solo attempt that does nothing but renew for this long is shown as silent.
pub const SILENT_AFTER: Millis = Millis::minutes(30);
/// The worker enforces deadlines; the server fires them itself only this much later.
pub const BACKSTOP: Millis = Millis::seconds(30);
/// How long the processes of an agent may take to be gone once its shim kills them by force.
pub const FENCE_FALL: Millis = Millis::seconds(2);
