//! The body of a request, read within the bounds of requests.

use serde_json::Value;

use crate::json::{self, Bounds, Broken};
use crate::problem::Problem;

use super::limits::{JSON_DEPTH_MAX, JSON_KEYS_MAX, JSON_LIST_MAX, JSON_TEXT_BYTES_MAX};

const BOUNDS: Bounds = Bounds {
    depth_max: JSON_DEPTH_MAX,
    keys_max: JSON_KEYS_MAX,
    fields_max: JSON_KEYS_MAX,
    text_bytes_max: JSON_TEXT_BYTES_MAX,
    items_max: JSON_LIST_MAX,
};

/// Reads one document.
pub fn read(bytes: &[u8]) -> Result<Value, Problem> {
    json::read(bytes, &BOUNDS).map_err(|broken| match &broken {
        Broken::NotJson { .. } => Problem::new("malformed", format!("the body is {broken}")),
        Broken::Twice { .. } => Problem::new("malformed", broken.to_string()),
        Broken::TooLarge(_) => Problem::new("too_large", broken.to_string()),
    })
}
