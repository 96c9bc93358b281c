//! The tables as they are after all migrations, as a text to review.

use baton_testkit::postgres::Database;

use crate::site::{close, open, options};

/// Everything in the schema, told by the catalog: what a statement says may mean something else in
/// another version, what the catalog says does not.
const EVERYTHING: &str = r#"
WITH tables AS (
    SELECT c.oid, c.relname, c.relpersistence, c.reloptions, c.relrowsecurity
    FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
), columns AS (
    SELECT a.attrelid, string_agg(format(E'    %I %s%s%s%s%s', a.attname,
        format_type(a.atttypid, a.atttypmod),
        CASE WHEN a.attcollation <> t.typcollation THEN ' COLLATE ' || quote_ident(l.collname) END,
        CASE WHEN a.attnotnull THEN ' NOT NULL' END,
        CASE WHEN a.attidentity = 'a' THEN ' GENERATED ALWAYS AS IDENTITY' END,
        ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid)), E',\n' ORDER BY a.attnum) AS text
    FROM pg_attribute a JOIN tables ON tables.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_collation l ON l.oid = a.attcollation
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attnum > 0 AND NOT a.attisdropped GROUP BY a.attrelid
), parts (name, kind, part, text) AS (
    SELECT t.relname, 0, '', format(E'CREATE %sTABLE %I (\n%s\n)%s;',
        CASE t.relpersistence WHEN 'u' THEN 'UNLOGGED ' END, t.relname, c.text,
        ' WITH (' || array_to_string(t.reloptions, ', ') || ')')
    FROM tables t JOIN columns c ON c.attrelid = t.oid
    UNION ALL
    SELECT t.relname, 1, n.conname, format('ALTER TABLE %I ADD %s;', t.relname,
        pg_get_constraintdef(n.oid))
    FROM tables t JOIN pg_constraint n ON n.conrelid = t.oid WHERE n.contype IN ('p', 'u', 'f', 'c')
    UNION ALL
    SELECT t.relname, 2, i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) || ';'
    FROM tables t JOIN pg_index i ON i.indrelid = t.oid
    WHERE NOT EXISTS (SELECT 1 FROM pg_constraint n WHERE n.conindid = i.indexrelid AND n.contype IN ('p', 'u'))
    UNION ALL
    SELECT t.relname, 3, g.tgname, pg_get_triggerdef(g.oid) || ';'
    FROM tables t JOIN pg_trigger g ON g.tgrelid = t.oid WHERE NOT g.tgisinternal
    UNION ALL
    SELECT t.relname, 4, '', format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY;', t.relname)
    FROM tables t WHERE t.relrowsecurity
    UNION ALL
    SELECT t.relname, 5, p.polname, format('CREATE POLICY %I ON %I FOR %s TO %s USING %s;', p.polname,
        t.relname, CASE p.polcmd WHEN 'r' THEN 'SELECT' ELSE p.polcmd::text END,
        CASE p.polroles WHEN '{0}' THEN 'PUBLIC' ELSE p.polroles::text END,
        pg_get_expr(p.polqual, p.polrelid))
    FROM tables t JOIN pg_policy p ON p.polrelid = t.oid
    UNION ALL
    SELECT t.relname, 6, '', format('GRANT SELECT (%s) ON %I TO reader;',
        string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum), t.relname)
    FROM tables t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0
    WHERE has_column_privilege(current_database() || '_reader', t.oid, a.attnum, 'SELECT')
    GROUP BY t.oid, t.relname
    UNION ALL
    SELECT '~' || p.proname, 0, '', pg_get_functiondef(p.oid) || ';'
    FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace
)
SELECT text FROM parts ORDER BY name COLLATE "C", kind, part COLLATE "C"
"#;

#[test]
fn the_schema_on_postgres_is_the_one_that_was_reviewed() {
    let database = Database::fresh();
    close(open(&database.url(), options(1).careless()).expect("an empty database opens"));
    let mut text = String::from("-- What a migrated database holds, as its catalog tells it.\n");
    for part in database.say(EVERYTHING) {
        let begins = part.starts_with("CREATE TABLE")
            || part.starts_with("CREATE UNLOGGED")
            || part.starts_with("CREATE OR REPLACE");
        text.push_str(if begins { "\n" } else { "" });
        text.push_str(part.trim_end());
        text.push('\n');
    }
    expect_test::expect_file!["../../schema.postgres.sql"].assert_eq(&text);
}
