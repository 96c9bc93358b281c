use super::{Runner, major, user};

#[test]
fn a_version_is_read_as_postgres_tells_it() {
    assert_eq!(major("postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)"), Some(15));
    assert_eq!(major("postgres (PostgreSQL) 18beta1"), Some(18));
    assert_eq!(major("something else"), None);
}

#[test]
fn a_user_is_found_by_its_whole_name() {
    let line = "postgres:x:101:104:PostgreSQL administrator,,,:/var/lib/postgresql:/bin/bash";
    let found = user(line, "postgres").map(|Runner { uid, gid }| (uid, gid));
    assert_eq!(found, Some((101, 104)));
    assert!(user(line, "post").is_none());
}
