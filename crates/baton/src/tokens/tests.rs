use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Barrier;

use baton_domain::Refusal;
use baton_domain::command::{Agent, Command, Proof, Supervisor, Verdict};
use baton_domain::ids::{Nonce, TaskId, TenantId};
use baton_domain::text::Reason;

use super::{Error, Forged, Keyring, Pass, Secrets, Speaker, TOKEN_LENGTH, base62};
use crate::chance::{SeededChance, SystemChance};

mod keys;

const NONCE: Nonce = Nonce(0x0123_4567_89ab_cdef_0011_2233_4455_6677);

fn keyring() -> Keyring {
    Keyring::new(Secrets::new([7; 32]), 1)
}

fn tenant(name: &str) -> TenantId {
    TenantId::new(name).expect("a plain word is a name")
}

fn token(speaker: Speaker) -> String {
    keyring().mint(&tenant("local"), TaskId(128), 3, NONCE, speaker).reveal().into()
}

fn pass(speaker: Speaker) -> Pass {
    keyring().verify(&token(speaker), &tenant("local")).expect("our own token is valid")
}

#[test]
fn a_token_proves_its_attempt_and_names_task_and_speaker() {
    for speaker in [Speaker::Agent, Speaker::Supervisor, Speaker::Solo] {
        let pass = pass(speaker);
        assert_eq!((pass.task, pass.speaker), (TaskId(128), speaker));
        assert_eq!(pass.proof(), Proof::Token { attempt: 3, nonce: NONCE });
    }
}

#[test]
fn the_extremes_of_every_part_come_back() {
    for (task, attempt, nonce) in [(0, 0, 0), (u64::MAX, u32::MAX, u128::MAX), (1, 1, 1 << 64)] {
        let (task, nonce) = (TaskId(task), Nonce(nonce));
        let token = keyring().mint(&tenant("local"), task, attempt, nonce, Speaker::Solo);
        let pass = keyring().verify(token.reveal(), &tenant("local")).expect("it is valid");
        assert_eq!((pass.task, pass.proof()), (task, Proof::Token { attempt, nonce }));
    }
}

#[test]
fn the_same_lease_always_gives_the_same_token() {
    assert_eq!(token(Speaker::Agent), token(Speaker::Agent));
    assert_ne!(token(Speaker::Agent), token(Speaker::Supervisor));
}

#[test]
fn a_token_has_one_shape_that_a_scanner_can_find() {
    let token = token(Speaker::Solo);
    assert_eq!(token.len(), TOKEN_LENGTH);
    let digits = token.strip_prefix("batonc_").expect("it has its prefix");
    assert!(digits.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    assert!(Reason::new("reason", format!("see {token}")).is_err(), "no text may hold one");
}

#[test]
fn a_token_of_another_tenant_incarnation_or_pepper_is_refused() {
    let check = |keyring: Keyring, name: &str| {
        assert_eq!(keyring.verify(&token(Speaker::Solo), &tenant(name)), Err(Forged));
    };
    check(keyring(), "other");
    check(keyring(), "local2");
    check(Keyring::new(Secrets::new([7; 32]), 2), "local");
    check(Keyring::new(Secrets::new([8; 32]), 1), "local");
}

#[test]
fn a_token_with_one_changed_character_is_refused() {
    let token = token(Speaker::Agent);
    for at in 0..token.len() {
        for other in ["0", "1", "A", "z", "_", " "] {
            let changed = format!("{}{other}{}", &token[..at], &token[at + 1..]);
            if changed != token {
                assert_eq!(keyring().verify(&changed, &tenant("local")), Err(Forged), "{at}");
            }
        }
    }
}

#[test]
fn a_changed_token_with_the_right_checksum_is_refused_too() {
    let token = token(Speaker::Agent);
    let body = token.len() - base62::CHECK_DIGITS;
    for at in 7..body {
        let other = if &token[at..=at] == "1" { "2" } else { "1" };
        let mut changed = format!("{}{other}{}", &token[..at], &token[at + 1..body]);
        let check = base62::checksum(&changed);
        base62::push(&mut changed, u64::from(check), base62::CHECK_DIGITS);
        assert_eq!(keyring().verify(&changed, &tenant("local")), Err(Forged), "{at}");
    }
}

#[test]
fn anything_else_is_refused_the_same_way() {
    let token = token(Speaker::Agent);
    let longer = format!("{token}0");
    let spaced = format!("{token}\n");
    let wide = "ß".repeat(TOKEN_LENGTH / 2) + "0";
    for text in ["", "batonc_", &token[1..], &longer, &spaced, &wide, &"z".repeat(TOKEN_LENGTH)] {
        assert_eq!(keyring().verify(text, &tenant("local")), Err(Forged), "{text}");
    }
}

#[test]
fn each_speaker_has_only_its_own_words() {
    let denied = |said: Result<Command, Refusal>| {
        assert_eq!(said.expect_err("it has no such words").code(), "not_for_you");
    };
    let renew = || Supervisor::Renew { lease: None };
    let verdict = || Verdict::default();
    assert!(pass(Speaker::Agent).agent(Agent::Begin).is_ok());
    denied(pass(Speaker::Agent).supervisor(renew()));
    denied(pass(Speaker::Agent).verdict(verdict()));
    denied(pass(Speaker::Supervisor).agent(Agent::Begin));
    assert!(pass(Speaker::Supervisor).supervisor(renew()).is_ok());
    assert!(pass(Speaker::Supervisor).verdict(verdict()).is_ok());
    assert!(pass(Speaker::Solo).agent(Agent::Begin).is_ok());
    assert!(pass(Speaker::Solo).supervisor(renew()).is_ok());
    denied(pass(Speaker::Solo).verdict(verdict()));
}

#[test]
fn no_secret_is_ever_printed_by_debug() {
    let secrets = Secrets::new([0xAB; 32]);
    let keyring = Keyring::new(secrets.clone(), 1);
    let token = keyring.mint(&tenant("local"), TaskId(1), 1, NONCE, Speaker::Solo);
    let pass = keyring.verify(token.reveal(), &tenant("local")).expect("it is valid");
    let printed = format!("{secrets:?} {keyring:?} {token:?} {pass:?}");
    for secret in ["171", "ab", "AB", &NONCE.0.to_string(), token.reveal()] {
        assert!(!printed.contains(secret), "{printed}");
    }
}

#[test]
fn digits_are_read_back_and_too_great_a_number_is_not() {
    for value in [0, 1, 61, 62, u64::MAX - 1, u64::MAX] {
        let mut text = String::new();
        base62::push(&mut text, value, base62::WORD_DIGITS);
        assert_eq!((text.len(), base62::read(&text)), (base62::WORD_DIGITS, Some(value)));
    }
    assert_eq!(base62::read("LygHa16AHYG"), None, "one more than 64 bits hold");
    assert_eq!(base62::read("zzzzzzzzzzz"), None);
    assert_eq!(base62::read("00000-00000"), None);
    assert_eq!(base62::checksum("123456789"), 0xCBF4_3926, "the check value of CRC-32");
}

#[test]
fn the_pepper_is_made_once_and_read_ever_after() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let path = folder.path().join("pepper");
    let first = Secrets::open(&path, &SeededChance::new(1)).expect("it is made");
    let second = Secrets::open(&path, &SeededChance::new(2)).expect("it is read");
    assert_eq!(first.pepper(), second.pepper());
    let mode = fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let names = fs::read_dir(folder.path()).expect("the folder is there").count();
    assert_eq!(names, 1, "no draft is left behind");
}

#[test]
fn servers_that_start_at_once_share_one_pepper() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let path = folder.path().join("pepper");
    let barrier = Barrier::new(8);
    let open = || {
        barrier.wait();
        Secrets::open(&path, &SystemChance).expect("it is made or read").pepper().to_vec()
    };
    let peppers: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    assert!(peppers.iter().all(|pepper| *pepper == peppers[0]));
}

#[test]
fn a_pepper_that_others_may_read_is_refused() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let path = folder.path().join("pepper");
    Secrets::open(&path, &SystemChance).expect("it is made");
    for mode in [0o640, 0o604, 0o620, 0o610, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
        let refused = Secrets::open(&path, &SystemChance).expect_err("it is too open");
        assert!(matches!(refused, Error::TooOpen { mode: seen, .. } if seen == mode), "{mode:o}");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).expect("it is ours");
    Secrets::open(&path, &SystemChance).expect("less is fine");
}

#[test]
fn a_pepper_that_is_none_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let path = folder.path().join("pepper");
    let long = "a".repeat(65);
    let other = format!("{}\n\n\n{}", "a".repeat(64), "b".repeat(64));
    for content in ["", "abc", &long, &"g".repeat(64), &other] {
        fs::write(&path, content).expect("it is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        let refused = Secrets::open(&path, &SystemChance).expect_err("it is no pepper");
        assert!(matches!(refused, Error::Malformed { .. }), "{content}");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), content);
    }
}

#[test]
fn a_pepper_without_a_folder_is_refused() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let path = folder.path().join("nowhere").join("pepper");
    let refused = Secrets::open(&path, &SystemChance).expect_err("there is no folder");
    assert!(matches!(refused, Error::Unusable { .. }));
}
