//! Reads what a program wrote: everything may be absent, of another type, or far too long.

use baton_domain::time::Timestamp;
use serde_json::Value;

use super::seen::Usage;

/// Bytes of a text that is passed on: a question, a command, an error. The whole is in the spool.
const TEXT_BYTES_MAX: usize = 4_096;
/// Bytes of an id or a name. One that is longer could not be given back, so it is no id.
const NAME_BYTES_MAX: usize = 256;

/// A text, cut where it is too long.
pub(super) fn text(value: &Value) -> Option<String> {
    value.as_str().map(clip)
}

/// The beginning of a text, without NULs.
pub(super) fn clip(text: &str) -> String {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut clipped = text[..end].replace('\0', "");
    if end < text.len() {
        clipped.push('…');
    }
    clipped
}

/// An id or a name, unless it is empty or too long.
pub(super) fn name(value: &Value) -> Option<String> {
    let name = value.as_str()?;
    let fits = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains('\0');
    fits.then(|| name.to_owned())
}

/// Whether there is something to see in a text.
pub(super) fn is_visible(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

/// A number of things.
pub(super) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Dollars as millionths.
pub(super) fn micros(dollars: &Value) -> u64 {
    let micros = dollars.as_f64().map_or(0.0, |dollars| dollars * 1_000_000.0);
    // Through its digits: a number that is none, or none of ours, is nothing.
    format!("{micros:.0}").parse().unwrap_or(0)
}

/// Seconds since 1970.
pub(super) fn seconds(value: &Value) -> Option<Timestamp> {
    value.as_i64().filter(|at| *at > 0)?.checked_mul(1_000).map(Timestamp)
}

/// A status of HTTP.
pub(super) fn status(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|status| u16::try_from(status).ok()).filter(|status| *status >= 100)
}

/// Members of a list; of anything else, none.
pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// What is used, under the names that a program has for it.
pub(super) fn usage(value: &Value, names: [&str; 3]) -> Usage {
    let [input, output, cached] = names.map(|name| count(&value[name]));
    Usage { input, output, cached, cost_micros: 0 }
}
