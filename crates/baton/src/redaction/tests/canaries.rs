//! What must be found.

use super::super::encodings::{base64, hex};
use super::super::{MASK, Tally};
use super::{HELD, cleaned};

/// Secrets of others that are no secrets: made up, and as long as real ones.
const SHAPES: [&str; 26] = [
    "ghp_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
    "gho_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
    "ghs_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
    "github_pat_11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuVwXyZ0123456789aBcDeFgHiJkLmNoPqRsTuVwXyZ012345",
    "glpat-aBcDeFgHiJ_lMnOpQ-12",
    "xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx",
    "xapp-1-A0123456789-1234567890123-abcdef0123456789abcdef",
    "AKIA0123456789ABCDEF",
    "ASIA0123456789ABCDEF",
    "AIzaSyA0123456789-bCdEfGhIjKlMnOpQrStUv",
    "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-AbCdEf_GhAA",
    "sk-proj-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGh",
    "sk-AbCdEfGhIjKlMnOpQrStT3BlbkFJAbCdEfGhIjKlMnOpQrSt01",
    "sk_live_AbCdEfGhIjKlMnOpQrStUvWx",
    "npm_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
    "pypi-AgEIcHlwaS5vcmcCJDAxMjM0NTY3LTg5YWItY2RlZi0wMTIzLTQ1Njc4OWFiY2RlZgACKlsz",
    "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567",
    "SG.AbCdEfGhIjKlMnOpQrStUv.AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfG",
    "gsk_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKlMnOp",
    "ya29.a0AfB_byC0123456789AbCdEfGhIjKlMnOpQr",
    "GOCSPX-AbCdEfGhIjKlMnOpQrStUvWxYz01",
    "shpat_0123456789abcdef0123456789abcdef",
    "dop_v1_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "lin_api_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCd",
    "dckr_pat_AbCdEfGhIjKlMnOpQrStUvWxYz0",
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9",
];

/// Nothing of the secret that is long enough to be of use is left.
fn gone(secret: &str, text: &str) {
    let (out, tally) = cleaned(text);
    assert_eq!(tally.total(), 1, "{text} became {out}");
    let parts = secret.as_bytes().windows(8);
    for part in parts {
        let part = String::from_utf8_lossy(part);
        assert!(!out.contains(&*part), "{part} is left of {text}: {out}");
    }
}

#[test]
fn secrets_of_others_are_found_by_their_shape_wherever_they_stand() {
    for secret in SHAPES {
        gone(secret, secret);
        gone(secret, &format!("it said {secret}, then it stopped"));
        gone(secret, &format!("KEY=\"{secret}\""));
        gone(secret, &format!("https://example.com/?key%3D{secret}&x=1"));
        gone(secret, &format!("{{\\\"a\\\":\\\"b\\n{secret}\\\"}}"));
        gone(secret, &format!("ünï→{secret}→"));
    }
}

#[test]
fn secrets_of_others_are_found_in_base64_and_hex() {
    for secret in SHAPES.iter().filter(|secret| !secret.starts_with("eyJ")) {
        for before in ["", "x", "xy", "user:"] {
            // Whole groups, so that no character is left to be padded.
            let plain = format!("{before}{secret}");
            let plain = format!("{plain}{}", &"   "[plain.len() % 3..]);
            let encoded = String::from_utf8(base64(plain.as_bytes(), 0)).expect("plain");
            gone(&encoded[8..], &format!("Look: {encoded}=="));
            gone(&encoded[8..], &encoded.replace('+', "-").replace('/', "_"));
        }
        let digits = String::from_utf8(hex(secret.as_bytes())).expect("plain");
        gone(&digits, &format!("Look: {digits}."));
        gone(&digits.to_uppercase(), &digits.to_uppercase());
    }
}

#[test]
fn a_held_secret_is_found_in_every_encoding_and_masked_whole() {
    let encodings = super::super::encodings::all(HELD.as_bytes());
    assert!(encodings.len() > 15, "{}", encodings.len());
    for encoded in encodings {
        let encoded = String::from_utf8(encoded).expect("text in, text out");
        let (out, tally) = cleaned(&format!("before {encoded} after"));
        assert_eq!((out.as_str(), tally.known), ("before [redacted] after", 1), "{encoded}");
    }
}

#[test]
fn private_keys_are_masked_to_their_last_line_and_public_ones_are_not() {
    let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\nAAAABG5vbmU=\n\
               -----END OPENSSH PRIVATE KEY-----";
    assert_eq!(cleaned(&format!("a\n{key}\nb")).0, "a\n[redacted]\nb");
    let one_line = key.replace('\n', "\\n");
    assert_eq!(cleaned(&format!("{{\"k\":\"{one_line}\\n\"}}")).0, "{\"k\":\"[redacted]\\n\"}");
    assert_eq!(cleaned("-----BEGIN RSA PRIVATE KEY-----\nabc").0, MASK, "it is cut off");
    let encoded = String::from_utf8(base64(key.as_bytes(), 0)).expect("plain");
    let wrapped: Vec<_> = encoded.as_bytes().chunks(76).map(String::from_utf8_lossy).collect();
    assert_eq!(cleaned(&format!("{}\n.", wrapped.join("\n"))).0, format!("{MASK}."));
    let public = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----";
    assert_eq!(cleaned(public), (public.to_owned(), Tally::default()));
}

#[test]
fn what_a_header_or_a_name_says_is_a_secret_is_one() {
    let check = |text: &str, expected: &str| assert_eq!(cleaned(text).0, expected);
    check("Authorization: Bearer 0123456789abcdefXYZ", "Authorization: Bearer [redacted]");
    check("authorization: bearer%20a1b2c3d4e5f6a7b8", "authorization: bearer%20[redacted]");
    check("Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic [redacted]");
    check(
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCY0123456789",
        "AWS_SECRET_ACCESS_KEY=[redacted]",
    );
    check(r#"{"password": "Tr0ub4dor3andMore"}"#, r#"{"password": "[redacted]"}"#);
    check(r#"{\"api_key\":\"Tr0ub4dor3andMore\"}"#, r#"{\"api_key\":\"[redacted]\"}"#);
    check("client_secret: 'Tr0ub4dor3andMore'", "client_secret: '[redacted]'");
}

#[test]
fn passwords_in_addresses_are_masked_and_the_rest_stays() {
    let check = |text: &str, expected: &str| assert_eq!(cleaned(text).0, expected);
    check("postgres://baton:s3cret@db:5432/x", "postgres://baton:[redacted]@db:5432/x");
    check("redis://:pw@localhost", "redis://:[redacted]@localhost");
    check("https://a:b@c:d@host/p", "https://a:[redacted]@host/p");
    check(r"postgres:\/\/baton:s3cret@db", r"postgres:\/\/baton:[redacted]@db");
    check("x%3A%2F%2Fu%3Apw%40h%2Fp", "x%3A%2F%2Fu%3A[redacted]%40h%2Fp");
}

#[test]
fn tokens_of_our_own_are_told_from_all_others_in_any_encoding() {
    let token = format!("batonc_{}", "Ab1".repeat(31));
    let key = format!("batonk_{}_{}", "a1B2".repeat(3), "Cd3".repeat(16));
    for (text, tokens, keys) in [(&token, 1, 0), (&key, 0, 1)] {
        let encoded = String::from_utf8(base64(format!("ab{text}").as_bytes(), 0)).expect("plain");
        let digits = String::from_utf8(hex(text.as_bytes())).expect("plain");
        for text in
            [text.clone(), format!("Bearer {text}"), format!("token={text}"), encoded, digits]
        {
            let (_, tally) = cleaned(&text);
            let expected = Tally { claim_tokens: tokens, keys, ..Tally::default() };
            assert_eq!(tally, expected, "{text}");
        }
    }
}
