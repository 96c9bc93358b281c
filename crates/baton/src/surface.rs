//! The whole surface as text: `surface.txt` for reviewers, `openapi.json` for programs. Both are
//! read from the table of operations, so neither can say anything else than what is served.

mod openapi;
mod text;

pub use openapi::openapi;
pub use text::text;

/// What the server answers besides the table.
pub const HANDWRITTEN: &[Route] = &[
    Route {
        path: "/health",
        kind: "text/plain",
        bare: true,
        summary: "Whether the server is well, in one word",
    },
    Route {
        path: "/metrics",
        kind: "text/plain",
        bare: false,
        summary: "Figures in the Prometheus text format",
    },
    Route {
        path: "/v1/openapi.json",
        kind: "application/json",
        bare: false,
        summary: "This description",
    },
];

/// A path that the server answers itself, by GET alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where.
    pub path: &'static str,
    /// The content type of the answer.
    pub kind: &'static str,
    /// Whether it needs no key.
    pub bare: bool,
    /// One sentence.
    pub summary: &'static str,
}

/// Secrets that an answer may carry beside its record, shown once: record, field, sentence.
const SECRETS: &[(&str, &str, &str)] = &[
    ("ClaimedView", "claim_token", "Proves the attempt; shown once."),
    ("ClaimedView", "agent_token", "What the agent of a supervised attempt is given; shown once."),
];

fn secrets_of(record: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = SECRETS.iter().filter(move |(of, ..)| *of == record);
    own.map(|(_, field, doc)| (*field, *doc))
}

#[cfg(test)]
mod tests;
