use rusqlite::{Connection, StatementStatus};

use super::NEAREST;

/// How many steps the database makes to answer.
fn steps(db: &Connection, id: &str) -> i32 {
    let mut statement = db.prepare(NEAREST).expect("it is SQL");
    statement.query_row([id], |row| row.get::<_, String>(6)).expect("there is one");
    statement.get_status(StatementStatus::VmStep)
}

#[test]
fn an_id_that_nobody_has_takes_the_steps_of_one_that_somebody_has() {
    let db = Connection::open_in_memory().expect("there is memory");
    db.execute_batch(include_str!("../../../schema.sql")).expect("it is SQL");
    db.execute_batch("INSERT INTO tenants VALUES (1, 'local', 0, 0, x'00')").expect("a tenant");
    for id in ["aaaaaaaaaaaa", "cccccccccccc", "eeeeeeeeeeee", "gggggggggggg"] {
        let sql = "INSERT INTO keys VALUES (1, ?1, '{}', x'01', NULL, NULL, NULL)";
        db.execute(sql, [id]).expect("a key");
    }
    let known = steps(&db, "cccccccccccc");
    for other in ["bbbbbbbbbbbb", "dddddddddddd", "eeeeeeeeeeee", "zzzzzzzzzzzz"] {
        assert_eq!(steps(&db, other), known, "{other}");
    }
    // Before the first id there is no row to compare with: as many steps less as that takes.
    assert!(steps(&db, "AAAAAAAAAAAA").abs_diff(known) <= 3, "the first is read instead");
}
