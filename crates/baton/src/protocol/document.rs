//! `docs/worker-protocol.md`, written from the frames themselves.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{
    BOUNDS, FRAME_BYTES_MAX, MESSAGE_BYTES_MAX, SLOTS_MAX, Side, VERSION, downs, ups, write,
};
use crate::shape::{Record, Shape};

const OPENING: &str = "\
# The worker protocol

Generated from the code; `./check bless` rewrites it.

A worker runs agents for a server: it says what it can do and how much room it has, is handed runs, and tells
what becomes of them. Both speak over a WebSocket at `GET /v1/worker`, over TCP with a key of a worker as
`Authorization: Bearer`, or over the local socket. The key needs the scope `worker:work`; pages of browsers are
refused whatever they show. Nothing secret stands in a URL.

Every message is a text, and one JSON object: a frame. Its field `frame` says which one.
";

const RULES: &str = "
## Rules

- The first frame of a worker is `hello`, the first of a server is `welcome`. Whoever speaks otherwise is cut.
- Every frame that concerns an attempt carries `attempt` and `seq`. The worker counts `seq` per attempt from 1 and
  sends in this order. The server stores the last number that it carried out in the same transaction as what the
  frame did: a frame with that number or a lower one is acknowledged and dropped.
- The worker keeps every such frame until it is acknowledged by `ack` or named by a `problem`. After each `welcome`
  it sends again what is above `applied_seq`. So a cut, a crash of either side, or both, loses no report and doubles
  none.
- A frame of an attempt that holds the run no longer changes nothing of the run; it is acknowledged, and answered with
  `fenced`. Three things of it still join history, if the token of the dispatch came with the `hello` or the dispatch
  went over this connection: the proof of death, what was spent, and the last snapshot.
- An attempt that the server does not know, and one of somebody else, get the same answer to the last byte.
- A cut changes nothing: leases go on. Whoever is back within its lease goes on where it was.
- Heartbeats renew leases and prove nothing else. A worker that must not be late renews at a third of the lease.
- Fields that a peer does not know are ignored. What is absent stays absent; there is no null. A field of the wrong type
  is refused by its name, with a `problem`, and the frame changes nothing.
- A `problem` about a frame settles it: the same frame sent again would be refused again. After a `problem` without
  `about` the connection ends.
- When the server drains, it says `drain` and hands out nothing more. Whatever runs goes on; the worker comes back.
";

/// The whole document.
#[must_use]
pub fn document() -> String {
    let mut page = OPENING.to_owned();
    let _ = write!(
        page,
        "\nThis is protocol {VERSION}. A message has at most {} KiB and comes in frames of the socket of at most {} KiB; \
         it is at most {}\nlevels deep, an object has at most {} fields and a list {} entries. A worker holds at most \
         {SLOTS_MAX} runs. The server pings\nevery 20 s and hears a pong within 10 s; a connection lives 24 h.\n",
        MESSAGE_BYTES_MAX >> 10,
        FRAME_BYTES_MAX >> 10,
        BOUNDS.depth_max,
        BOUNDS.fields_max,
        BOUNDS.items_max,
    );
    page.push_str(RULES);
    let mut told = BTreeSet::new();
    side(&mut page, "What a worker says", &ups(), &mut told);
    side(&mut page, "What a server says", &downs(), &mut told);
    page
}

fn side<S: Side>(
    page: &mut String,
    title: &str,
    examples: &[S],
    told: &mut BTreeSet<&'static str>,
) {
    let _ = write!(page, "\n## {title}\n");
    for (word, shape) in S::frames() {
        let Shape::Record(record) = &shape else { continue };
        let _ = write!(page, "\n### `{word}`\n\n{}\n", record.doc);
        table(page, record);
        let mut inner = vec![];
        records(record, &mut inner);
        for record in inner {
            if told.insert(record.name) {
                let _ = write!(page, "\n**{}**: {}\n", record.name, record.doc);
                table(page, &record);
            }
        }
        for example in examples.iter().filter(|example| example.word() == word) {
            let text = write(example).unwrap_or_default();
            let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            let _ = write!(page, "\n```json\n{value:#}\n```\n");
        }
    }
}

fn table(page: &mut String, record: &Record) {
    page.push_str("\n| field | type | must be there | what it says |\n|---|---|---|---|\n");
    for field in &record.fields {
        let must = if field.required { "yes" } else { "no" };
        let kind = kind(&field.shape);
        let _ = writeln!(page, "| `{}` | {kind} | {must} | {} |", field.name, field.doc);
    }
}

/// Records inside of a record, and inside of those, in the order in which they are met.
fn records(record: &Record, found: &mut Vec<Record>) {
    for field in &record.fields {
        let mut shape = &field.shape;
        while let Shape::List { of, .. } | Shape::Map { of, .. } = shape {
            shape = of;
        }
        if let Shape::Record(inner) = shape {
            found.push(inner.clone());
            records(inner, found);
        }
    }
}

fn kind(shape: &Shape) -> String {
    match shape {
        Shape::Text { form: Some(form), .. } => format!("text like `{}`", form.example),
        Shape::Text { bytes_max, form: None } => format!("text, ≤ {bytes_max} bytes"),
        Shape::Number { max, .. } => format!("number, ≤ {max}"),
        Shape::Flag => "true or false".to_owned(),
        Shape::Choice(words) => {
            let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
            format!("one of {}", words.join(", "))
        }
        Shape::List { of, count_max } => format!("list of {}, ≤ {count_max}", kind(of)),
        Shape::Map { of, count_max, .. } => format!("names to {}, ≤ {count_max}", kind(of)),
        Shape::Record(record) => record.name.to_owned(),
        Shape::Tagged { .. } | Shape::Json => "any JSON".to_owned(),
    }
}
