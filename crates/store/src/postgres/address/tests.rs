use std::ffi::OsString;

use super::{Address, Authorities, Way};
use crate::postgres::OpenError;

fn way(url: &str) -> Way {
    Address::read(url).map(|address| address.way).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn refused(url: &str) -> String {
    match Address::read(url) {
        Ok(_) => panic!("{url} was taken"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn nothing_crosses_a_network_in_plain_text_unless_the_address_says_so() {
    let machine = || Authorities::Machine;
    for near in [
        "postgres:///baton?host=/run/postgresql",
        "postgres:///baton?host=/run/postgresql&sslmode=verify-full",
        "postgres://baton@localhost/baton",
        "postgresql://baton@127.0.0.1:6432/baton",
        "postgres://baton@[::1]/baton",
    ] {
        assert_eq!(way(near), Way::Plain, "{near}");
    }
    let far = "postgres://baton:secret@db.example.com/baton";
    assert_eq!(way(far), Way::Named(machine()));
    assert_eq!(way(&format!("{far}?sslmode=disable")), Way::Plain);
    assert_eq!(way(&format!("{far}?sslmode=require")), Way::Encrypted);
    assert_eq!(way(&format!("{far}?sslmode=verify-ca")), Way::OfAuthority(machine()));
    assert_eq!(way(&format!("{far}?sslrootcert=system")), Way::Named(machine()));
    assert_eq!(way("postgres://10.0.0.7/baton"), Way::Named(machine()));
    let both = "postgres://localhost,db.example.com/baton";
    assert_eq!(way(both), Way::Named(machine()), "the farthest counts");
    for weak in ["allow", "prefer"] {
        let said = refused(&format!("{far}?sslmode={weak}"));
        assert!(said.contains("plain text") && said.contains("verify-full"), "{said}");
    }
}

#[test]
fn an_address_that_cannot_be_read_is_refused_and_not_repeated() {
    for wrong in [
        "host=localhost dbname=baton",
        "mysql://baton@localhost/baton",
        "postgres://baton:secret@",
        "postgres://baton:secret@localhost/baton?sslmode=maybe",
        "postgres://baton:secret@localhost/baton?pooler=statement",
        "postgres://baton:secret@localhost/baton?sslrootcert=%zz",
        "postgres://baton:secret@localhost/baton?colour=blue",
        "postgres://baton:secret@localhost/baton?sslrootcert=/nowhere/at/all.pem",
    ] {
        assert!(!refused(wrong).contains("secret"), "{wrong}");
    }
    let missing = refused("postgres://localhost/baton?sslrootcert=/nowhere/a%20b.pem");
    assert!(missing.contains("/nowhere/a b.pem"), "{missing}");
    let read = Address::read("postgres://u:p@h/d?sslmode=require&sslmode=what");
    assert!(matches!(read, Err(OpenError::Tls(_))), "the last word counts");
}

#[test]
fn a_pooler_is_named_and_never_guessed() {
    let pooled = |url: &str| Address::read(url).map(|address| address.pooled).ok();
    let url = "postgres://baton@localhost:6432/baton";
    assert_eq!(pooled(url), Some(false));
    assert_eq!(pooled(&format!("{url}?pooler=transaction")), Some(true));
    assert_eq!(pooled(&format!("{url}?connect_timeout=3&pooler=transaction")), Some(true));
    assert_eq!(pooled(&format!("{url}?pooler=session")), Some(false));
}

#[test]
fn tools_are_told_everything_by_their_environment() {
    let url =
        "postgres://ann:a%20b@one,two:6432/work?sslmode=require&target_session_attrs=read-write";
    let told = Address::read(url).map(|address| address.environment());
    let told = told.unwrap_or_else(|error| panic!("{error}"));
    let of = |name: &str| {
        let found = told.iter().find(|(known, _)| *known == name);
        found.map_or_else(OsString::new, |(_, value)| value.clone())
    };
    assert_eq!(of("PGHOST"), "one,two");
    assert_eq!(of("PGPORT"), "5432,6432");
    assert_eq!(of("PGUSER"), "ann");
    assert_eq!(of("PGPASSWORD"), "a b");
    assert_eq!(of("PGDATABASE"), "work");
    assert_eq!(of("PGSSLMODE"), "require");
    assert_eq!(of("PGTARGETSESSIONATTRS"), "read-write");
    assert_eq!(of("PGPASSFILE"), "/dev/null/none");
}
