-- By which ways people are told, and how far each is: version counts what was noted of it.
CREATE TABLE channels (
    tenant   INTEGER NOT NULL REFERENCES tenants (id),
    name     TEXT NOT NULL,
    body     TEXT NOT NULL,
    version  INTEGER NOT NULL,
    progress TEXT NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
