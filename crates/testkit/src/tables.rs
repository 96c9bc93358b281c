//! Everything that a database file holds, as text.

use std::fmt::Write;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

/// Every row of every table, to the last byte, read by a connection of its own. What stands in
/// `aside` is left out: a table, or a column as `table.column`.
///
/// # Panics
///
/// If the file is no database.
#[must_use]
pub fn dump(path: &Path, aside: &[&str]) -> String {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("it opens");
    // One moment for all tables, however the writer goes on.
    db.execute_batch("BEGIN").expect("it reads");
    let mut text = String::new();
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    for table in column(&db, tables) {
        if aside.contains(&table.as_str()) {
            continue;
        }
        let columns = column(&db, &format!("SELECT name FROM pragma_table_info('{table}')"));
        let is_kept = |name: &&String| !aside.contains(&format!("{table}.{name}").as_str());
        let columns: Vec<_> = columns.iter().filter(is_kept).map(String::as_str).collect();
        let order: Vec<_> = (1..=columns.len()).map(|number| number.to_string()).collect();
        let rows =
            format!("SELECT {} FROM \"{table}\" ORDER BY {}", columns.join(", "), order.join(", "));
        let mut rows = db.prepare(&rows).expect("it reads");
        let mut rows = rows.query([]).expect("it reads");
        while let Some(row) = rows.next().expect("it reads") {
            write!(text, "{table}").expect("a string takes any text");
            for (at, name) in columns.iter().enumerate() {
                let value = row.get_ref(at).expect("it is there");
                write!(text, " {name}={}", shown(value)).expect("a string takes any text");
            }
            text.push('\n');
        }
    }
    text
}

/// Changes a file behind everybody's back; tells how many rows.
///
/// # Panics
///
/// If the file is no database, or this is no change.
pub fn change(path: &Path, sql: &str) -> usize {
    Connection::open(path).expect("it opens").execute(sql, []).expect("it is SQL")
}

fn column(db: &Connection, sql: &str) -> Vec<String> {
    let mut rows = db.prepare(sql).expect("it is SQL");
    let rows = rows.query_map([], |row| row.get(0)).expect("it reads");
    rows.collect::<Result<_, _>>().expect("it reads")
}

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "-".into(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

#[cfg(test)]
mod tests;
