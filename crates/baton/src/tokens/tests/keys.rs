use std::collections::BTreeSet;

use baton_domain::ids::PrincipalId;
use baton_domain::key::KeyId;
use baton_domain::text::Text;

use super::{Keyring, Secrets, keyring, tenant};
use crate::chance::SeededChance;
use crate::tokens::key::{Shown, mint_id};
use crate::tokens::{KEY_LENGTH, KEY_PATTERN, KeyToken};

fn id() -> KeyId {
    KeyId::new("0aZ3456789xy").expect("it is twelve letters and digits")
}

fn token(seed: u64) -> String {
    KeyToken::mint(&id(), &SeededChance::new(seed)).reveal().into()
}

#[test]
fn a_key_has_the_form_that_scanners_look_for() {
    let text = token(1);
    let parts: Vec<&str> = text.split('_').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    assert_eq!((parts[0], parts[1], &lengths[..]), ("batonk", "0aZ3456789xy", &[6, 12, 43, 6][..]));
    assert!(parts.iter().all(|part| part.bytes().all(|b| b.is_ascii_alphanumeric())));
    assert_eq!(text.len(), KEY_LENGTH);
    for length in lengths {
        assert!(length == 6 || KEY_PATTERN.contains(&format!("{{{length}}}")));
    }
    assert_ne!(token(1), token(2));
    assert_eq!(Shown::read(&text).expect("it is well-formed").id, id());
}

#[test]
fn one_changed_character_makes_it_no_key() {
    let text = token(1);
    for at in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[at] = if bytes[at] == b'x' { b'y' } else { b'x' };
        let changed = String::from_utf8(bytes).expect("it is ascii");
        assert!(Shown::read(&changed).is_none(), "{changed}");
    }
    for wrong in ["", "batonk_", &text[1..], &format!("{text}0"), &text.replace("batonk", "batonc")]
    {
        assert!(Shown::read(wrong).is_none(), "{wrong}");
    }
}

#[test]
fn a_verifier_depends_on_pepper_id_and_secret() {
    let (one, other) = (token(1), token(2));
    let verifier = |keyring: &Keyring, text: &str| {
        keyring.verifier(&Shown::read(text).expect("it is well-formed")).0
    };
    let elsewhere = KeyToken::mint(&mint_id(&SeededChance::new(9)), &SeededChance::new(1));
    let all = [
        verifier(&keyring(), &one),
        verifier(&keyring(), &other),
        verifier(&keyring(), elsewhere.reveal()),
        verifier(&Keyring::new(Secrets::new([8; 32]), 1), &one),
    ];
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    let later = Keyring::new(Secrets::new([7; 32]), 2);
    assert_eq!(verifier(&later, &one), all[0], "a restored store knows its keys");
}

#[test]
fn a_repeated_request_names_the_same_key() {
    let by = |name: &str| PrincipalId::new(name).expect("a plain word is a name");
    let named = |tenant_name: &str, principal: &str, request: &str| {
        keyring().key_id(&tenant(tenant_name), &by(principal), request)
    };
    assert_eq!(named("local", "ann", "one"), named("local", "ann", "one"));
    let others = [("acme", "ann", "one"), ("local", "bob", "one"), ("local", "ann", "two")];
    for (tenant, principal, request) in others {
        assert_ne!(named(tenant, principal, request), named("local", "ann", "one"));
    }
}

#[test]
fn digits_of_chance_are_all_used_and_evenly() {
    let chance = SeededChance::new(3);
    let mut counts = [0_u32; 128];
    for _ in 0..2_000 {
        let id = mint_id(&chance);
        id.as_str().bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    }
    let used: Vec<u32> = counts.into_iter().filter(|count| *count > 0).collect();
    assert_eq!(used.len(), 62);
    let (least, most) = (used.iter().min(), used.iter().max());
    assert!(least > Some(&280) && most < Some(&500), "{least:?} to {most:?} of 387");
}

#[test]
fn a_key_hides_itself_and_is_refused_in_texts() {
    let token = KeyToken::mint(&id(), &SeededChance::new(1));
    assert_eq!(format!("{token:?}"), "KeyToken(…)");
    let told = format!("use {} for now", token.reveal());
    let refused = Text::<256>::new("summary", told).expect_err("it holds a key");
    assert!(!refused.to_string().contains("batonk_"), "{refused}");
}
