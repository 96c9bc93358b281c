//! What the parser says by itself of a request that it cannot read, said as a problem.
//!
//! It answers before anybody of ours has seen the request, with a status and nothing else. Every
//! answer of ours has a type, so the two cannot be taken for each other.

use hyper::StatusCode;

use crate::problem::Problem;

use super::answer;
use super::limits::{HEAD_BUFFER_BYTES, HEADERS_PARSED_MAX};

/// What to say in place of these bytes, if they are the parser's own words.
#[must_use]
pub fn instead_of(bytes: &[u8]) -> Option<String> {
    let status = bytes.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    let status = StatusCode::from_bytes(status).ok().filter(StatusCode::is_client_error)?;
    let head = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    if head.contains("\r\ncontent-type:") {
        return None;
    }
    Some(answer::bare(&match status {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
            let detail = format!(
                "a request has at most {HEADERS_PARSED_MAX} header lines, and {HEAD_BUFFER_BYTES} \
                 bytes before its body"
            );
            Problem::new("headers_too_large", detail)
        }
        StatusCode::URI_TOO_LONG => Problem::new("url_too_long", "the URL is too long to be read"),
        _ => Problem::new("malformed", "the request cannot be read as HTTP/1.1"),
    }))
}

#[cfg(test)]
mod tests {
    use super::instead_of;

    #[test]
    fn only_words_of_the_parser_are_replaced() {
        let own = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let said = instead_of(own.as_bytes()).expect("it is the parser's");
        assert!(said.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{said}");
        assert!(said.contains("\"code\":\"malformed\""), "{said}");
        for ours in [
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "a body that says HTTP/1.1 400 Bad Request",
            "HTTP/1.",
            "",
        ] {
            assert_eq!(instead_of(ours.as_bytes()), None, "{ours}");
        }
    }
}
