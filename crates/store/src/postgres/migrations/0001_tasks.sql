-- What the database knows of itself: numbers and bytes by name.
CREATE TABLE meta (
    name   text PRIMARY KEY,
    number bigint,
    bytes  bytea
);

-- When somebody last watched the time. It is forgotten by a crash and by a failover, which is
-- right: after either, nobody has watched.
CREATE UNLOGGED TABLE watched (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    at  bigint NOT NULL
);

CREATE TABLE tenants (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name            text COLLATE "C" NOT NULL UNIQUE,
    floor           bigint NOT NULL DEFAULT 0, -- positions up to here are no longer kept
    position        bigint NOT NULL DEFAULT 0, -- of the last entry
    last_at         bigint NOT NULL DEFAULT 0, -- the time of the last entry
    records_version bigint NOT NULL DEFAULT 0,
    records_head    bytea NOT NULL
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- How many tasks were born, apart from the positions: numbering holds up nobody else.
CREATE TABLE births (
    tenant bigint PRIMARY KEY REFERENCES tenants (id),
    last   bigint NOT NULL
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE projects (
    tenant bigint NOT NULL REFERENCES tenants (id),
    name   text COLLATE "C" NOT NULL,
    body   bytea NOT NULL,
    PRIMARY KEY (tenant, name)
);

CREATE TABLE briefs (
    tenant  bigint NOT NULL,
    task    bigint NOT NULL,
    project text COLLATE "C" NOT NULL,
    parent  bigint,
    version bigint NOT NULL, -- of the entry that wrote it
    body    bytea NOT NULL,
    PRIMARY KEY (tenant, task)
);

CREATE INDEX briefs_by_parent ON briefs (tenant, parent) WHERE parent IS NOT NULL;

-- Live tasks and ended ones: the row of a task stays where it is, so that it can be locked. What
-- is found among live tasks is found by indexes that hold only those.
CREATE TABLE flows (
    tenant   bigint NOT NULL,
    task     bigint NOT NULL,
    project  text COLLATE "C" NOT NULL,
    stage    text COLLATE "C" NOT NULL,
    version  bigint NOT NULL, -- of the entry that wrote it
    live     boolean NOT NULL,
    lane     bigint, -- the hash of the lane that it queues in
    probe    bigint, -- the hash of a second one
    ready_at bigint NOT NULL,
    due_at   bigint, -- when time has something to do with it, leases apart
    held     boolean NOT NULL,
    epic     boolean NOT NULL,
    ended_at bigint, -- until it is put away
    head     bytea NOT NULL, -- the last link of the task's chain
    body     bytea NOT NULL,
    PRIMARY KEY (tenant, task)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX flows_live ON flows (tenant, task) WHERE live;
CREATE INDEX flows_by_lane ON flows (tenant, lane, ready_at, task) WHERE lane IS NOT NULL;
CREATE INDEX flows_by_probe ON flows (tenant, probe, ready_at, task) WHERE probe IS NOT NULL;
CREATE INDEX flows_by_due ON flows (tenant, due_at, task) WHERE due_at IS NOT NULL;
CREATE INDEX flows_by_end ON flows (tenant, project, ended_at, task) WHERE ended_at IS NOT NULL;

CREATE TABLE leases (
    tenant     bigint NOT NULL,
    task       bigint NOT NULL,
    attempt    bigint NOT NULL,
    holder     text COLLATE "C" NOT NULL,
    nonce      bytea NOT NULL,
    expires_at bigint NOT NULL,
    length     bigint NOT NULL,
    PRIMARY KEY (tenant, task)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX leases_by_end ON leases (tenant, expires_at, task);

CREATE TABLE runs (
    tenant  bigint NOT NULL,
    task    bigint NOT NULL,
    number  bigint NOT NULL,
    version bigint NOT NULL, -- of the entry that it came with
    body    bytea NOT NULL,
    PRIMARY KEY (tenant, task, number)
);

CREATE TABLE attempts (
    tenant    bigint NOT NULL,
    task      bigint NOT NULL,
    number    bigint NOT NULL,
    run       bigint NOT NULL,
    version   bigint NOT NULL,
    principal text COLLATE "C" NOT NULL,
    body      bytea NOT NULL,
    PRIMARY KEY (tenant, task, number)
);

CREATE TABLE checkpoints (
    tenant  bigint NOT NULL,
    task    bigint NOT NULL,
    number  bigint NOT NULL,
    run     bigint NOT NULL,
    version bigint NOT NULL,
    body    bytea NOT NULL,
    PRIMARY KEY (tenant, task, number)
);

CREATE TABLE edges (
    tenant  bigint NOT NULL,
    task    bigint NOT NULL,
    on_task bigint NOT NULL,
    PRIMARY KEY (tenant, task, on_task)
);

CREATE INDEX edges_by_target ON edges (tenant, on_task);

CREATE TABLE pools (
    tenant     bigint NOT NULL,
    name       text COLLATE "C" NOT NULL,
    shut_until bigint, -- when a pause ends by itself
    body       bytea NOT NULL,
    PRIMARY KEY (tenant, name)
) WITH (fillfactor = 50);

CREATE INDEX pools_by_opening ON pools (shut_until) WHERE shut_until IS NOT NULL;

CREATE TABLE keys (
    tenant       bigint NOT NULL REFERENCES tenants (id),
    id           text COLLATE "C" NOT NULL UNIQUE,
    body         bytea NOT NULL,
    verifier     bytea,
    former       bytea, -- the one before, for a while after an exchange
    former_until bigint,
    used_at      bigint,
    PRIMARY KEY (tenant, id)
);

CREATE TABLE reactions (
    tenant bigint NOT NULL,
    id     bigint GENERATED ALWAYS AS IDENTITY,
    task   bigint NOT NULL, -- that it is owed to
    body   bytea NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE TABLE events (
    tenant    bigint NOT NULL,
    position  bigint NOT NULL,
    task      bigint NOT NULL,
    version   bigint NOT NULL,
    at        bigint NOT NULL,
    principal text COLLATE "C" NOT NULL,
    actor     bytea NOT NULL,
    salt      bytea,
    payload   bytea,
    digest    bytea, -- only once the payload is erased
    wrote     bytea NOT NULL, -- salted digests of the rows that came with it
    link      bytea NOT NULL,
    PRIMARY KEY (tenant, position)
);

CREATE UNIQUE INDEX events_by_task ON events (tenant, task, version);

CREATE TABLE seals (
    tenant    bigint NOT NULL,
    up_to     bigint NOT NULL,
    digest    bytea NOT NULL,
    key       bytea NOT NULL,
    signature bytea NOT NULL,
    PRIMARY KEY (tenant, up_to)
);

CREATE TABLE seal_keys (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key     bytea NOT NULL UNIQUE,
    vouched bytea NOT NULL
);

CREATE TABLE requests (
    tenant      bigint NOT NULL,
    principal   text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    at          bigint NOT NULL,
    task        bigint,
    entry_task  bigint, -- which entry it left, if it left one
    entry       bigint,
    attempt     bigint, -- whose lease was shown
    run         bigint, -- that it was about
    PRIMARY KEY (tenant, principal, key)
);

CREATE INDEX requests_by_age ON requests (at);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '%', TG_ARGV[0]; END $$;

CREATE TRIGGER runs_are_final BEFORE UPDATE ON runs FOR EACH ROW
EXECUTE FUNCTION refuse_change('a finished run never changes');
CREATE TRIGGER runs_are_kept BEFORE DELETE ON runs FOR EACH ROW
EXECUTE FUNCTION refuse_change('a finished run is kept');
CREATE TRIGGER attempts_are_final BEFORE UPDATE ON attempts FOR EACH ROW
EXECUTE FUNCTION refuse_change('an ended attempt never changes');
CREATE TRIGGER attempts_are_kept BEFORE DELETE ON attempts FOR EACH ROW
EXECUTE FUNCTION refuse_change('an ended attempt is kept');
CREATE TRIGGER checkpoints_are_final BEFORE UPDATE ON checkpoints FOR EACH ROW
EXECUTE FUNCTION refuse_change('a checkpoint never changes');
CREATE TRIGGER checkpoints_are_kept BEFORE DELETE ON checkpoints FOR EACH ROW
EXECUTE FUNCTION refuse_change('a checkpoint is kept');
CREATE TRIGGER seals_are_final BEFORE UPDATE ON seals FOR EACH ROW
EXECUTE FUNCTION refuse_change('a seal never changes');
CREATE TRIGGER seals_are_kept BEFORE DELETE ON seals FOR EACH ROW
EXECUTE FUNCTION refuse_change('a seal is kept');

CREATE TRIGGER events_are_final BEFORE UPDATE ON events FOR EACH ROW
WHEN (OLD.digest IS NOT NULL OR NEW.payload IS NOT NULL OR NEW.salt IS NOT NULL
   OR NEW.digest IS NULL OR NEW.tenant <> OLD.tenant OR NEW.position <> OLD.position
   OR NEW.task <> OLD.task OR NEW.version <> OLD.version OR NEW.at <> OLD.at
   OR NEW.principal <> OLD.principal OR NEW.actor <> OLD.actor OR NEW.wrote <> OLD.wrote
   OR NEW.link <> OLD.link)
EXECUTE FUNCTION refuse_change('an entry never changes');

CREATE FUNCTION keep_entry() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
    IF OLD.position > (SELECT floor FROM tenants WHERE id = OLD.tenant) THEN
        RAISE EXCEPTION 'an entry is kept';
    END IF;
    RETURN OLD;
END $$;

CREATE TRIGGER events_are_kept BEFORE DELETE ON events FOR EACH ROW
EXECUTE FUNCTION keep_entry();

-- Whoever reads for a tenant sees that tenant's rows, whatever the query says, and without a tenant
-- none. It holds for everybody but the owner: who may read at all is said by rights.
DO $$
DECLARE of_tenant text;
BEGIN
    FOREACH of_tenant IN ARRAY ARRAY['projects', 'briefs', 'flows', 'leases', 'runs', 'attempts',
        'checkpoints', 'edges', 'pools', 'keys', 'events', 'requests']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', of_tenant);
        EXECUTE format('CREATE POLICY own ON %I FOR SELECT
            USING (tenant = nullif(current_setting(''baton.tenant'', true), '''')::bigint)', of_tenant);
    END LOOP;
    ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
    CREATE POLICY own ON tenants FOR SELECT
        USING (id = nullif(current_setting('baton.tenant', true), '')::bigint);
END $$;
