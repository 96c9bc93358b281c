use rusqlite::Connection;

use super::dump;

#[test]
fn a_dump_has_every_value_but_what_is_put_aside() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("some.db");
    let db = Connection::open(&path).expect("it opens");
    let sql = "CREATE TABLE b (x, y); CREATE TABLE a (z); CREATE TABLE c (w);
               INSERT INTO b VALUES (2, x'00ff'), (1, 'it''s'); INSERT INTO a VALUES (NULL);
               INSERT INTO c VALUES (1)";
    db.execute_batch(sql).expect("it is SQL");
    assert_eq!(dump(&path, &["c"]), "a z=-\nb x=1 y=\"it's\"\nb x=2 y=00ff\n");
    assert_eq!(dump(&path, &["c", "a", "b.x"]), "b y=\"it's\"\nb y=00ff\n");
}
