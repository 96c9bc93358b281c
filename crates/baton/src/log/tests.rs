use super::{FILTER, Form};

fn check(value: Option<&str>, json: bool, filter: &str) {
    assert_eq!(Form::read(value), Form { json, filter }, "{value:?}");
}

#[test]
fn a_form_has_a_word_and_a_filter_and_each_may_be_absent() {
    check(None, false, FILTER);
    check(Some(""), false, FILTER);
    check(Some("plain"), false, FILTER);
    check(Some("json"), true, FILTER);
    check(Some("json,baton=debug,warn"), true, "baton=debug,warn");
    check(Some("plain,trace"), false, "trace");
    check(Some("debug"), false, "debug");
    check(Some("baton=debug,warn"), false, "baton=debug,warn");
}
