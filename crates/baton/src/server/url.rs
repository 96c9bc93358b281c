//! What stands in a URL: names and values, and never a secret.

use baton_domain::text::{CLAIM_TOKEN_PREFIX, KEY_PREFIX};

use crate::problem::Problem;

/// Names under which people put secrets into a URL.
const SECRET_NAMES: [&str; 8] =
    ["token", "key", "access_token", "api_key", "apikey", "claim_token", "secret", "password"];

/// The text that a percent-encoded one stands for; none if it is not well encoded.
#[must_use]
pub fn decoded(text: &str, plus_is_space: bool) -> Option<String> {
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'%' => 16 * digit(bytes.next()?)? + digit(bytes.next()?)?,
            b'+' if plus_is_space => b' ',
            other => other,
        });
    }
    String::from_utf8(plain).ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// The names and values of a query, in their order.
pub fn query(text: &str) -> Result<Vec<(String, String)>, Problem> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        Some((decoded(name, true)?, decoded(value, true)?))
    };
    let parts = text.split('&').filter(|part| !part.is_empty());
    let pairs: Option<Vec<_>> = parts.map(pair).collect();
    pairs.ok_or_else(|| Problem::new("malformed", "the query is not well encoded"))
}

/// Refuses a URL that holds a secret: logs, proxies and histories keep URLs.
pub fn refuse_secrets(path: &str, query: Option<&str>) -> Result<(), Problem> {
    let ours = |text: &str| {
        [CLAIM_TOKEN_PREFIX, KEY_PREFIX].iter().any(|prefix| {
            let text = text.to_ascii_lowercase();
            text.contains(prefix)
        })
    };
    let shown = |text: &str| ours(text) || decoded(text, true).is_some_and(|text| ours(&text));
    let named = |query: &str| {
        query.split('&').any(|part| {
            let name = part.split_once('=').map_or(part, |(name, _)| name);
            let name = decoded(name, true).unwrap_or_default().to_ascii_lowercase();
            SECRET_NAMES.contains(&name.as_str())
        })
    };
    if shown(path) || query.is_some_and(|query| shown(query) || named(query)) {
        let detail = "a secret never stands in a URL: send a key as `Authorization: Bearer`, a \
                      claim token as `Baton-Claim-Token`; treat the one you sent as leaked";
        return Err(Problem::new("malformed", detail).next("baton key rotate"));
    }
    Ok(())
}
