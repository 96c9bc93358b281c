use baton_domain::scope::Scope;
use expect_test::expect;

use super::KNOWN;
use crate::identity::{Preset, grant};

fn shown(preset: Preset) -> String {
    let scopes = preset.expand(KNOWN);
    scopes.iter().map(Scope::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn presets_stand_for_these_scopes() {
    expect!["audit:read blob:read key:read task:read"].assert_eq(&shown(Preset::Read));
    expect!["blob:read blob:write run:work task:read task:write"].assert_eq(&shown(Preset::Agent));
    expect!["blob:read blob:write run:work task:read worker:work"]
        .assert_eq(&shown(Preset::Worker));
    assert_eq!(Preset::All.expand(KNOWN).len(), KNOWN.len());
}

#[test]
fn no_preset_for_programs_forces_sets_up_or_sees_keys() {
    for preset in [Preset::Agent, Preset::Worker] {
        let told = shown(preset);
        for word in [":force", ":admin", "key:", "audit:"] {
            assert!(!told.contains(word), "{preset:?} has {told}");
        }
    }
}

#[test]
fn words_add_up_and_what_does_not_exist_is_refused() {
    let words =
        |words: &[&str]| grant(&words.iter().map(|it| (*it).into()).collect::<Vec<_>>(), KNOWN);
    let granted = words(&["agent", "run:force", "run:work"]).expect("they exist");
    assert_eq!(granted.len(), Preset::Agent.expand(KNOWN).len() + 1);
    assert_eq!(words(&[]).expect("nothing is asked for").len(), 0);
    for wrong in ["", "All", "task", "task:", "task:everything", "ghost:read", "run:read"] {
        let refused = words(&["agent", wrong]).expect_err(wrong);
        assert_eq!(refused.code(), "invalid");
    }
}
