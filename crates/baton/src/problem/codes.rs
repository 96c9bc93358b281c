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
    /// What usually helps; `{task}` and the like stand for what the request named.
    pub next: Option<&'static str>,
}

const fn code(
    word: &'static str,
    status: u16,
    exit: u8,
    retryable: bool,
    title: &'static str,
    next: Option<&'static str>,
) -> Code {
    Code { word, status, exit, retryable, title, next }
}

/// Every code there is.
pub const CODES: &[Code] = &[
    code("approval_pending", 409, 5, true, "Somebody must agree first", Some("baton inbox")),
    code("beyond_key", 403, 4, false, "Not with this key", Some("baton key list")),
    code(
        "contract_changed",
        409,
        5,
        false,
        "The contract has changed",
        Some("baton run show {run}"),
    ),
    code("cursor_expired", 410, 5, false, "The cursor has expired", Some("baton event list")),
    code("cycle", 409, 5, false, "The dependency would close a circle", None),
    code("dependency_open", 409, 5, true, "The task waits for another", None),
    code("disk_full", 507, 1, true, "The disk is full", Some("baton doctor")),
    code("draft", 409, 5, false, "The task is a draft", Some("baton task publish {task}")),
    code("ended", 409, 5, false, "The task has ended", None),
    code("forbidden", 403, 4, false, "The key does not allow this", Some("baton key list")),
    code("headers_too_large", 431, 2, false, "The header lines are too large", None),
    code("heard_before", 409, 5, false, "It was said before", None),
    code("held", 409, 5, true, "Somebody holds the run", Some("baton explain {task}")),
    code("holder_full", 409, 14, true, "The claimer holds as much as it may", None),
    code("incomplete", 422, 10, true, "The run is not complete", Some("baton run show mine")),
    code("in_use", 409, 5, true, "Another baton works in this folder", None),
    code("internal", 500, 1, true, "Something broke", Some("baton doctor")),
    code("invalid", 422, 2, false, "A value breaks a rule", None),
    code("key_ended", 409, 5, false, "The key has ended", Some("baton key list")),
    code("key_reused", 422, 5, false, "The idempotency key was used for another request", None),
    code("lease_lost", 409, 5, false, "The lease is lost", Some("baton run claim")),
    code("limit_reached", 409, 5, false, "There are as many as there may be", None),
    code(
        "lineage_too_long",
        409,
        5,
        false,
        "Retried as often as it may be",
        Some("baton show {task}"),
    ),
    code("malformed", 400, 2, false, "The request cannot be read", None),
    code("name_taken", 409, 5, false, "The name is taken", None),
    code("no_run", 409, 5, false, "The task has no live run", Some("baton explain {task}")),
    code("no_stage", 422, 2, false, "There is no such stage", Some("baton project show {project}")),
    code("not_due", 409, 5, true, "The time has not come", None),
    code("not_for_you", 403, 4, false, "Not for this caller", None),
    code("not_found", 404, 3, false, "There is no such thing", Some("baton ls")),
    code("not_yet", 409, 5, false, "This version cannot do it yet", None),
    code("nothing_claimable", 409, 14, true, "Nothing to claim", Some("baton ls")),
    code("on_hold", 409, 5, false, "The task is on hold", Some("baton explain {task}")),
    code("overloaded", 503, 1, true, "Too much is waiting", None),
    code("paused", 409, 5, true, "Somebody paused this", Some("baton pool list")),
    code("person_needed", 409, 11, false, "Only a person may do this", Some("baton inbox")),
    code("pool_full", 409, 5, true, "A limit is reached", Some("baton pool list")),
    code("project_in_use", 409, 5, false, "The project has live tasks", Some("baton ls")),
    code("rate_limited", 429, 5, true, "Too often", None),
    code("run_changed", 412, 5, false, "Another run is live", Some("baton run list")),
    code("stage_occupied", 409, 5, false, "Tasks stand in that stage", Some("baton ls")),
    code("stopped", 503, 6, true, "The server is stopping", None),
    code("too_large", 413, 2, false, "The request is too large", None),
    code("too_many", 409, 5, false, "A bound is reached", None),
    code("too_slow", 408, 1, true, "The request came too slowly", None),
    code("unauthenticated", 401, 4, false, "A key is needed", Some("baton doctor")),
    code("unknown", 503, 7, true, "The outcome is unknown", None),
    code("unreachable", 503, 6, true, "The server cannot be reached", Some("baton serve")),
    code("unsupported", 415, 2, false, "Only JSON is understood", None),
    code("url_too_long", 414, 2, false, "The URL is too long", None),
    code("version_changed", 412, 5, false, "The task has changed", Some("baton show {task}")),
    code("wrong_method", 405, 2, false, "Not by this method", None),
    code("wrong_place", 421, 2, false, "Not at this address", None),
    code("wrong_state", 409, 5, false, "Not in this state", Some("baton explain {task}")),
];

/// The code of that word; a word that nobody declared is a broken server, not a new code.
pub(super) fn find(word: &str) -> &'static Code {
    let found = CODES.iter().find(|code| code.word == word);
    found.or_else(|| CODES.iter().find(|code| code.word == "internal")).expect("it is listed")
}
