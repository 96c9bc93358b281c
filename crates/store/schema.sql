CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tenants (
    id              INTEGER PRIMARY KEY,
    name            TEXT NOT NULL UNIQUE,
    floor           INTEGER NOT NULL DEFAULT 0, -- positions up to here are no longer kept
    records_version INTEGER NOT NULL DEFAULT 0,
    records_head    BLOB NOT NULL
) STRICT;

CREATE TABLE projects (
    tenant INTEGER NOT NULL REFERENCES tenants (id),
    name   TEXT NOT NULL,
    body   TEXT NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE briefs (
    tenant  INTEGER NOT NULL REFERENCES tenants (id),
    task    INTEGER NOT NULL,
    project TEXT NOT NULL,
    parent  INTEGER,
    version INTEGER NOT NULL, -- of the entry that wrote it
    body    TEXT NOT NULL,
    PRIMARY KEY (tenant, task)
) STRICT, WITHOUT ROWID;

CREATE INDEX briefs_by_parent ON briefs (tenant, parent) WHERE parent IS NOT NULL;

CREATE TABLE flows (
    tenant INTEGER NOT NULL,
    task   INTEGER NOT NULL,
    stage  TEXT NOT NULL,
    head   BLOB NOT NULL, -- the last link of the task's chain
    body   TEXT NOT NULL,
    PRIMARY KEY (tenant, task)
) STRICT, WITHOUT ROWID;

CREATE TABLE ended (
    tenant   INTEGER NOT NULL,
    task     INTEGER NOT NULL,
    project  TEXT NOT NULL,
    ended_at INTEGER, -- until it is put away
    head     BLOB NOT NULL,
    body     TEXT NOT NULL,
    PRIMARY KEY (tenant, task)
) STRICT, WITHOUT ROWID;

CREATE INDEX ended_by_time ON ended (tenant, project, ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE leases (
    tenant     INTEGER NOT NULL,
    task       INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    holder     TEXT NOT NULL,
    nonce      BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    length     INTEGER NOT NULL, heard INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, task)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    tenant  INTEGER NOT NULL,
    task    INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    version INTEGER NOT NULL, -- of the entry that it came with
    body    TEXT NOT NULL,
    PRIMARY KEY (tenant, task, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempts (
    tenant    INTEGER NOT NULL,
    task      INTEGER NOT NULL,
    number    INTEGER NOT NULL,
    run       INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    principal TEXT NOT NULL,
    body      TEXT NOT NULL,
    PRIMARY KEY (tenant, task, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (
    tenant  INTEGER NOT NULL,
    task    INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    run     INTEGER NOT NULL,
    version INTEGER NOT NULL, -- of the entry that it came with
    body    TEXT NOT NULL,
    PRIMARY KEY (tenant, task, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE edges (
    tenant  INTEGER NOT NULL,
    task    INTEGER NOT NULL,
    on_task INTEGER NOT NULL,
    PRIMARY KEY (tenant, task, on_task)
) STRICT, WITHOUT ROWID;

CREATE TABLE pools (
    tenant INTEGER NOT NULL,
    name   TEXT NOT NULL,
    body   TEXT NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE keys (
    tenant       INTEGER NOT NULL REFERENCES tenants (id),
    id           TEXT NOT NULL,
    body         TEXT NOT NULL,
    verifier     BLOB,
    former       BLOB, -- the one before, for a while after an exchange
    former_until INTEGER,
    used_at      INTEGER,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX keys_by_id ON keys (id);

CREATE TABLE reactions (
    id     INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL,
    body   TEXT NOT NULL
) STRICT;

CREATE TABLE events (
    tenant    INTEGER NOT NULL,
    position  INTEGER NOT NULL,
    task      INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    principal TEXT NOT NULL,
    actor     TEXT NOT NULL,
    salt      BLOB,
    payload   TEXT,
    digest    BLOB, -- only once the payload is erased
    wrote     BLOB NOT NULL, -- salted digests of the rows that came with it
    link      BLOB NOT NULL,
    PRIMARY KEY (tenant, position)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX events_by_task ON events (tenant, task, version);

CREATE TABLE seals (
    tenant    INTEGER NOT NULL,
    up_to     INTEGER NOT NULL,
    digest    BLOB NOT NULL,
    key       BLOB NOT NULL,
    signature BLOB NOT NULL,
    PRIMARY KEY (tenant, up_to)
) STRICT, WITHOUT ROWID;

CREATE TABLE seal_keys (
    id      INTEGER PRIMARY KEY,
    key     BLOB NOT NULL UNIQUE,
    vouched BLOB NOT NULL
) STRICT;

CREATE TABLE requests (
    tenant      INTEGER NOT NULL,
    principal   TEXT NOT NULL,
    key         TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    at          INTEGER NOT NULL,
    task        INTEGER,
    position    INTEGER,
    attempt     INTEGER, -- whose lease was shown
    run         INTEGER, -- that it was about
    PRIMARY KEY (tenant, principal, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX requests_by_age ON requests (at);

CREATE TRIGGER runs_are_final BEFORE UPDATE ON runs
BEGIN SELECT RAISE (ABORT, 'a finished run never changes'); END;

CREATE TRIGGER runs_are_kept BEFORE DELETE ON runs
BEGIN SELECT RAISE (ABORT, 'a finished run is kept'); END;

CREATE TRIGGER attempts_are_final BEFORE UPDATE ON attempts
BEGIN SELECT RAISE (ABORT, 'an ended attempt never changes'); END;

CREATE TRIGGER attempts_are_kept BEFORE DELETE ON attempts
BEGIN SELECT RAISE (ABORT, 'an ended attempt is kept'); END;

CREATE TRIGGER checkpoints_are_final BEFORE UPDATE ON checkpoints
BEGIN SELECT RAISE (ABORT, 'a checkpoint never changes'); END;

CREATE TRIGGER checkpoints_are_kept BEFORE DELETE ON checkpoints
BEGIN SELECT RAISE (ABORT, 'a checkpoint is kept'); END;

CREATE TRIGGER seals_are_final BEFORE UPDATE ON seals
BEGIN SELECT RAISE (ABORT, 'a seal never changes'); END;

CREATE TRIGGER seals_are_kept BEFORE DELETE ON seals
BEGIN SELECT RAISE (ABORT, 'a seal is kept'); END;

CREATE TRIGGER events_are_final BEFORE UPDATE ON events
WHEN OLD.digest IS NOT NULL OR NEW.payload IS NOT NULL OR NEW.salt IS NOT NULL OR NEW.digest IS NULL
  OR NEW.tenant <> OLD.tenant OR NEW.position <> OLD.position OR NEW.task <> OLD.task
  OR NEW.version <> OLD.version OR NEW.at <> OLD.at OR NEW.principal <> OLD.principal
  OR NEW.actor <> OLD.actor OR NEW.wrote <> OLD.wrote OR NEW.link <> OLD.link
BEGIN SELECT RAISE (ABORT, 'an entry never changes'); END;

CREATE TRIGGER events_are_kept BEFORE DELETE ON events
WHEN OLD.position > (SELECT floor FROM tenants WHERE id = OLD.tenant)
BEGIN SELECT RAISE (ABORT, 'an entry is kept'); END;

CREATE TABLE channels (
    tenant   INTEGER NOT NULL REFERENCES tenants (id),
    name     TEXT NOT NULL,
    body     TEXT NOT NULL,
    version  INTEGER NOT NULL,
    progress TEXT NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
