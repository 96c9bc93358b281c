//! Every code there is, once: what REST answers with, what the command line exits with, and what
//! usually helps.

/// A stable word for why a request was not carried out.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// The word.
    pub word: &'static str,
    /// The status that REST answers with.
    pub status: u16,
    /// What the command line exits with.
    pub exit: u8,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// A few words for people.
    pub title: &'static str,
    /// What usually helps; `{task}` and the like stand for what the request named. There is always
    /// something: a dead end is no answer.
    pub next: &'static str,
}

const fn code(
    word: &'static str,
    status: u16,
    exit: u8,
    retryable: bool,
    title: &'static str,
    next: &'static str,
) -> Code {
    Code { word, status, exit, retryable, title, next }
}

/// Where a program reads how it should have asked. The command line says its own help instead.
pub const DESCRIBED: &str = "GET /v1/openapi.json";
/// What passes by itself.
const LATER: &str = "the same command again, a little later";

/// Every code there is.
pub const CODES: &[Code] = &[
    code("approval_pending", 409, 5, true, "Somebody must agree first", "baton inbox"),
    code("beyond_key", 403, 4, false, "Not with this key", "baton key list"),
    code("contract_changed", 409, 5, false, "The contract has changed", "baton run show {run}"),
    code("cursor_expired", 410, 5, false, "The cursor has expired", "baton event list"),
    code("cycle", 409, 5, false, "The dependency would close a circle", "baton explain {task}"),
    code("damaged", 500, 1, false, "The stored bytes are damaged", "baton doctor"),
    code("dependency_open", 409, 5, true, "The task waits for another", "baton explain {task}"),
    code("disk_full", 507, 1, true, "The disk is full", "baton doctor"),
    code("draft", 409, 5, false, "The task is a draft", "baton task publish {task}"),
    code("ended", 409, 5, false, "The task has ended", "baton show {task}"),
    code("forbidden", 403, 4, false, "The key does not allow this", "baton key list"),
    code("headers_too_large", 431, 2, false, "The header lines are too large", DESCRIBED),
    code("heard_before", 409, 5, false, "It was said before", "the next report"),
    code("held", 409, 5, true, "Somebody holds the run", "baton explain {task}"),
    code("holder_full", 409, 14, true, "The claimer holds as much as it may", "baton pool list"),
    code("incomplete", 422, 10, true, "The run is not complete", "baton run show mine"),
    code("in_use", 409, 5, true, "Another baton works in this folder", "baton doctor"),
    code("internal", 500, 1, true, "Something broke", "baton doctor"),
    code("invalid", 422, 2, false, "A value breaks a rule", DESCRIBED),
    code("key_ended", 409, 5, false, "The key has ended", "baton key list"),
    code("not_told", 502, 1, true, "Nobody was told", "baton channel list"),
    code(
        "key_reused",
        422,
        5,
        false,
        "The idempotency key was used for another request",
        "the same command without --idempotency-key",
    ),
    code("lease_lost", 409, 5, false, "The lease is lost", "baton run claim"),
    code("limit_reached", 409, 5, false, "There are as many as there may be", "baton stats show"),
    code("lineage_too_long", 409, 5, false, "Retried as often as it may be", "baton show {task}"),
    code("malformed", 400, 2, false, "The request cannot be read", DESCRIBED),
    code("name_taken", 409, 5, false, "The name is taken", "the same command with another name"),
    code("no_agent", 409, 2, false, "No agent is set up", "baton doctor"),
    code("no_run", 409, 5, false, "The task has no live run", "baton explain {task}"),
    code("no_stage", 422, 2, false, "There is no such stage", "baton project show {project}"),
    code("not_due", 409, 5, true, "The time has not come", "baton explain {task}"),
    code("not_for_you", 403, 4, false, "Not for this caller", "baton key list"),
    code("not_found", 404, 3, false, "There is no such thing", "baton ls"),
    code("not_kept", 409, 5, true, "The work is not to be had here", "baton worktree list"),
    code("not_yet", 409, 5, false, "This version cannot do it yet", "a newer version of baton"),
    code("nothing_claimable", 409, 14, true, "Nothing to claim", "baton ls"),
    code("on_hold", 409, 5, false, "The task is on hold", "baton explain {task}"),
    code("overloaded", 503, 1, true, "Too much is waiting", LATER),
    code("paused", 409, 5, true, "Somebody paused this", "baton pool list"),
    code("person_needed", 409, 11, false, "Only a person may do this", "baton inbox"),
    code("pool_full", 409, 5, true, "A limit is reached", "baton pool list"),
    code("project_in_use", 409, 5, false, "The project has live tasks", "baton ls"),
    code("rate_limited", 429, 5, true, "Too often", LATER),
    code("run_changed", 412, 5, false, "Another run is live", "baton run list"),
    code("stage_occupied", 409, 5, false, "Tasks stand in that stage", "baton ls"),
    code("stopped", 503, 6, true, "The server is stopping", LATER),
    code("too_large", 413, 2, false, "The request is too large", DESCRIBED),
    code("too_many", 409, 5, false, "A bound is reached", "baton stats show"),
    code("too_slow", 408, 1, true, "The request came too slowly", LATER),
    code("unauthenticated", 401, 4, false, "A key is needed", "baton doctor"),
    code(
        "unknown",
        503,
        7,
        true,
        "The outcome is unknown",
        "the same command with the same --idempotency-key",
    ),
    code("unreachable", 503, 6, true, "The server cannot be reached", "baton serve"),
    code("unsupported", 415, 2, false, "The body is of another type", DESCRIBED),
    code("url_too_long", 414, 2, false, "The URL is too long", DESCRIBED),
    code("version_changed", 412, 5, false, "The task has changed", "baton show {task}"),
    code("wrong_method", 405, 2, false, "Not by this method", DESCRIBED),
    code("wrong_place", 421, 2, false, "Not at this address", "baton serve --host NAME"),
    code("wrong_state", 409, 5, false, "Not in this state", "baton explain {task}"),
];

/// The code of that word; a word that nobody declared is a broken server, not a new code.
pub(super) fn find(word: &str) -> &'static Code {
    let found = CODES.iter().find(|code| code.word == word);
    found.or_else(|| CODES.iter().find(|code| code.word == "internal")).expect("it is listed")
}
