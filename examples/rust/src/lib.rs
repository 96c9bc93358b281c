//! Greets people.

/// A greeting for somebody.
pub fn greeting(name: &str) -> String {
    format!("Hello, {name}!")
}

#[test]
fn somebody_is_greeted_by_name() {
    assert_eq!(greeting("Ada"), "Hello, Ada!");
}
