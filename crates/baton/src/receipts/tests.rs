use baton_domain::contract::{Finding, Term};
use baton_domain::ids::{Digest, TaskId};
use baton_domain::text::{Line, Reason};
use baton_domain::time::{Millis, Timestamp};

use super::{Forged, Found, PublicKey, Signer, Statement, asks, verify};

fn signer() -> Signer {
    Signer::new(&[7; 32])
}

fn term() -> Term {
    let command = Line::new("command", "cargo test").expect("a line");
    Term::Gate { command, timeout: Millis::minutes(10) }
}

fn statement() -> Statement {
    let digest = |digit: &str| Digest::new(&digit.repeat(64)).expect("64 digits");
    Statement {
        tenant: "local".parse().expect("a name"),
        task: TaskId(7),
        run: "R-7.2".parse().expect("a run"),
        submission: 9,
        line: "tests".parse().expect("a name"),
        asks: asks(&term()),
        contract: digest("b"),
        tree: Some(Line::new("tree", "4b825dc6").expect("a line")),
        environment: None,
        found: Found::Holds,
        reason: None,
        evidence: Some(digest("c")),
        by: "ann".parse().expect("a name"),
        at: Timestamp(1_700_000_000_000),
    }
}

fn waived() -> Statement {
    // Everything that JSON writes in more than one way stands in it.
    let reason = Reason::new("reason", "\"é\" / \\ \n\t known to fail: 日本").expect("a reason");
    statement().finding(&Finding::Waived { reason })
}

#[test]
fn what_was_signed_is_read_back() {
    for statement in [statement(), waived()] {
        let text = signer().sign(&statement);
        let verified = verify(text.as_str().as_bytes(), &[signer().public()]);
        assert_eq!(verified, Ok((statement, signer().public())));
    }
}

#[test]
fn no_byte_can_be_changed() {
    for statement in [statement(), waived()] {
        let text = signer().sign(&statement).as_str().as_bytes().to_vec();
        for at in 0..text.len() {
            // Every bit of it, and what a careless editor might make of it.
            let flips = (0..8).map(|bit| text[at] ^ (1 << bit));
            for byte in flips.chain([b' ', b'\n', b'\r', b'\t', b'0', 0]) {
                let mut changed = text.clone();
                changed[at] = byte;
                let holds = verify(&changed, &[signer().public()]).is_ok();
                assert_eq!(holds, changed == text, "byte {at} became {byte}");
            }
        }
    }
}

#[test]
fn nothing_can_be_added_left_out_or_written_otherwise() {
    let text = signer().sign(&waived()).as_str().to_owned();
    let trusted = [signer().public()];
    for at in 0..text.len() {
        let shorter = [&text.as_bytes()[..at], &text.as_bytes()[at + 1..]].concat();
        assert!(verify(&shorter, &trusted).is_err(), "without byte {at}");
        assert!(verify(&text.as_bytes()[..at], &trusted).is_err(), "up to byte {at}");
    }
    for (from, to) in [
        ("{\"tenant\"", "{ \"tenant\""),
        ("\"task\":\"T-7\",\"run\":\"R-7.2\"", "\"run\":\"R-7.2\",\"task\":\"T-7\""),
        ("\"submission\":9", "\"submission\":9,\"more\":1"),
        ("\"submission\":9", "\"submission\":9,\"submission\":9"),
        ("\"submission\":9", "\"submission\":9.0"),
        ("日", "\\u65e5"),
        ("\n", "\r\n"),
        ("baton receipt 1\n", "\nbaton receipt 1\n"),
    ] {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from}");
        assert_eq!(verify(changed.as_bytes(), &trusted), Err(Forged::NotAReceipt), "{to}");
    }
    assert!(verify(format!("{text}\n").as_bytes(), &trusted).is_err());
    assert!(verify(b"", &trusted).is_err());
}

#[test]
fn only_a_key_that_is_trusted_proves_anything() {
    let other = Signer::new(&[8; 32]);
    let text = other.sign(&statement());
    let refused = verify(text.as_str().as_bytes(), &[signer().public()]);
    assert_eq!(refused, Err(Forged::UnknownKey(other.public().id())));
    // To put a trusted key in its place does not help.
    let key = |of: &Signer| of.public().digits();
    let changed = text.as_str().replace(&key(&other), &key(&signer()));
    assert_eq!(verify(changed.as_bytes(), &[signer().public()]), Err(Forged::Signature));
    // Nor does a key that every signature is of.
    let weak = "0100000000000000000000000000000000000000000000000000000000000000";
    let changed = text.as_str().replace(&key(&other), weak);
    let trusted = PublicKey::read(weak).expect("digits");
    assert_eq!(verify(changed.as_bytes(), &[trusted]), Err(Forged::Signature));
}

#[test]
fn a_line_that_asks_for_something_else_has_another_digest() {
    let command = Line::new("command", "true").expect("a line");
    let other = Term::Gate { command, timeout: Millis::minutes(10) };
    assert_ne!(asks(&term()), asks(&other));
}

#[test]
fn the_longest_statement_fits() {
    let reason = Reason::new("reason", "\"".repeat(2_048)).expect("a reason");
    let statement = Statement {
        tree: Some(Line::new("tree", "\\".repeat(1_024)).expect("a line")),
        environment: Some(asks(&term())),
        ..statement().finding(&Finding::Waived { reason })
    };
    let text = signer().sign(&statement);
    assert!(verify(text.as_str().as_bytes(), &[signer().public()]).is_ok());
}

#[test]
fn keys_have_digits_and_a_short_name() {
    let key = signer().public();
    assert_eq!(PublicKey::read(&key.digits()), Some(key));
    assert_eq!((key.digits().len(), key.id().len()), (64, 16));
    for bad in ["", "ab", &"A".repeat(64), &"g".repeat(64), &"é".repeat(32)] {
        assert_eq!(PublicKey::read(bad), None, "{bad}");
    }
}
