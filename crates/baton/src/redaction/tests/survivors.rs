//! What must not be touched: it looks like chance, and it is what people write to one another.

use super::super::Tally;
use super::cleaned;

fn survives(text: &str) {
    assert_eq!(cleaned(text), (text.to_owned(), Tally::default()));
}

#[test]
fn hashes_ids_and_digests_survive() {
    survives("at 3f5a1c0de9b87a6543210fedcba9876543210abc, then 3f5a1c0");
    survives("sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08");
    survives("integrity sha512-Nfi9WWbPEuvDVMSRMMSgYXGzy4aqVx9sYdMGhnNUN3g9LAZnVwK8bEQpJ1A==");
    survives("0198a7c2-4b1e-7c3d-8f2a-1b2c3d4e5f60 and T-128, R-128.2, A-128.3");
    survives("token: 0198a7c2-4b1e-7c3d-8f2a-1b2c3d4e5f60");
    survives("token = 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08");
    survives("W/\"33a64df551425fcc55e4d42a148795d9f25f89d4\"");
    survives("AAAAB3NzaC1yc2EAAAADAQABAAABgQC7 is a public key");
}

#[test]
fn plain_words_survive() {
    survives("task-0123456789-abcdefghij-klmnop is a task, disk-AbC0123456789defGHIjkl is not");
    survives("the bearer of this letter, Bearer authentication-is-required-here, basic training");
    survives("password: at least 12 characters; secret = see docs/guides/keys-and-security.md");
    survives("let token = parseBearerTokenFromHeader2(input); secretKeyRef: name: app");
    survives("tokens: 12345678901234567890");
    survives("https://example.com:8080/a@b?c=d and http://[::1]:7117/x");
    survives("postgres://user:$PASSWORD@host postgres://user:${PW}@host mysql://u:***@h");
    survives("git@github.com:acme/shop.git, user:pass@host without a scheme");
    survives("eyJ is how JSON begins; sk-learn, xoxb-, ghp_ and AKIA are prefixes");
    survives("baton claim; batonc_ is how a claim token begins");
    survives("-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----");
}

#[test]
fn random_hex_and_base64_survive() {
    // A seeded stream of what looks most like secrets; each of these would be a false alarm.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..2_000 {
        let bytes: Vec<u8> = (0..16).flat_map(|_| next().to_be_bytes()).collect();
        let digits = super::super::encodings::hex(&bytes);
        survives(&String::from_utf8(digits).expect("digits"));
        let encoded = super::super::encodings::base64(&bytes, 0);
        survives(&String::from_utf8(encoded).expect("plain"));
    }
}
