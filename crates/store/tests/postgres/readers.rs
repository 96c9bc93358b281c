//! Whoever reads for a tenant sees that tenant's rows and no secret, whatever is asked.

use baton_testkit::postgres::Database;

use crate::site::{close, open, options};

/// Two tenants, and a row of each of them in every table that has a tenant.
const FILL: &str = r#"DO $$
DECLARE t record; who bigint; columns text; vals text;
BEGIN
    INSERT INTO tenants (name, records_head) VALUES ('ann', '\x00'), ('bob', '\x00');
    FOR t IN SELECT c.oid, c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace AND a.attname = 'tenant'
    LOOP
        FOR who IN SELECT id FROM tenants LOOP
            SELECT string_agg(quote_ident(a.attname), ', '), string_agg(CASE a.atttypid
                    WHEN 'bigint'::regtype THEN who::text
                    WHEN 'boolean'::regtype THEN 'false'
                    WHEN 'bytea'::regtype THEN quote_literal('\x00')
                    ELSE quote_literal('x' || who) END, ', ')
                INTO columns, vals FROM pg_attribute a
                WHERE a.attrelid = t.oid AND a.attnum > 0 AND a.attidentity = '';
            EXECUTE format('INSERT INTO %I (%s) VALUES (%s)', t.relname, columns, vals);
        END LOOP;
    END LOOP;
END $$"#;

const TABLES: &str = "SELECT relname::text FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 1";

/// Columns that open something, or that tell what a forger would need.
const SECRET: [&str; 6] = [
    "leases.nonce",
    "keys.verifier",
    "keys.former",
    "events.salt",
    "meta.bytes",
    "seals.signature",
];

struct Attacker {
    database: Database,
    role: String,
}

impl Attacker {
    /// What the reader finds, with this before it.
    fn tries(&self, before: &str, statement: &str) -> Result<Vec<String>, String> {
        self.database.tries(&format!("SET ROLE {}; {before} {statement}", self.role))
    }

    /// The tenants of the rows that it sees in a table; none of one that it may not look into.
    fn tenants_in(&self, table: &str, before: &str) -> Option<Vec<String>> {
        if let Err(why) = self.tries(before, &format!("SELECT count(*) FROM {table}")) {
            assert!(why.contains("permission denied"), "{table}: {why}");
            return None;
        }
        let column = if table == "tenants" { "id" } else { "tenant" };
        let asked = format!("SELECT {column} FROM {table} ORDER BY 1");
        Some(self.tries(before, &asked).unwrap_or_else(|why| panic!("{table}: {why}")))
    }
}

fn attacker() -> Attacker {
    let database = Database::fresh();
    close(open(&database.url(), options(1).careless()).expect("an empty database opens"));
    database.say(FILL);
    let role = database.say("SELECT quote_ident(current_database() || '_reader')").concat();
    Attacker { database, role }
}

#[test]
fn a_reader_sees_the_rows_of_its_tenant_in_every_table_and_without_one_nothing() {
    let attacker = attacker();
    let mut seen = 0;
    for table in attacker.database.say(TABLES) {
        let Some(own) = attacker.tenants_in(&table, "SET baton.tenant = '1';") else { continue };
        assert_eq!(own, ["1"], "{table}");
        seen += 1;
        for nobody in ["", "SET baton.tenant = '';", "SET baton.tenant = '0';"] {
            let found = attacker.tenants_in(&table, nobody);
            assert_eq!(found, Some(vec![]), "{table} with {nobody:?}");
        }
        // A condition that would show the rows of others changes nothing.
        let column = if table == "tenants" { "id" } else { "tenant" };
        let asked = format!("SELECT {column} FROM {table} WHERE {column} = 2 OR true");
        assert_eq!(attacker.tries("SET baton.tenant = '1';", &asked), Ok(vec!["1".into()]));
    }
    assert_eq!(seen, 13, "tables that readers need");
}

#[test]
fn a_reader_sees_no_secret_and_changes_nothing() {
    let attacker = attacker();
    let refused = |statement: &str| {
        let said = attacker.tries("SET baton.tenant = '1';", statement);
        let said = said.expect_err(statement);
        assert!(said.contains("permission denied") || said.contains("must be owner"), "{said}");
    };
    for secret in SECRET {
        let (table, column) = secret.split_once('.').expect("a table and a column");
        refused(&format!("SELECT {column} FROM {table}"));
        refused(&format!("SELECT 1 FROM {table} WHERE {column} IS NOT NULL"));
    }
    for table in attacker.database.say(TABLES) {
        refused(&format!("DELETE FROM {table}"));
        refused(&format!("DROP TABLE {table}"));
        refused(&format!("ALTER TABLE {table} DISABLE ROW LEVEL SECURITY"));
    }
}

#[test]
fn readers_of_one_database_are_nobody_in_another() {
    let (attacker, other) = (attacker(), attacker_elsewhere());
    for table in other.say(TABLES) {
        let asked = format!("SET ROLE {}; SELECT 1 FROM {table}", attacker.role);
        let said = other.tries(&asked).expect_err("it is another's");
        assert!(said.contains("permission denied"), "{said}");
    }
}

fn attacker_elsewhere() -> Database {
    attacker().database
}
