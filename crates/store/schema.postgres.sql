-- What a migrated database holds, as its catalog tells it.

CREATE TABLE attempts (
    tenant bigint NOT NULL,
    task bigint NOT NULL,
    number bigint NOT NULL,
    run bigint NOT NULL,
    version bigint NOT NULL,
    principal text COLLATE "C" NOT NULL,
    body bytea NOT NULL
);
ALTER TABLE attempts ADD PRIMARY KEY (tenant, task, number);
CREATE TRIGGER attempts_are_final BEFORE UPDATE ON public.attempts FOR EACH ROW EXECUTE FUNCTION refuse_change('an ended attempt never changes');
CREATE TRIGGER attempts_are_kept BEFORE DELETE ON public.attempts FOR EACH ROW EXECUTE FUNCTION refuse_change('an ended attempt is kept');
ALTER TABLE attempts ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON attempts FOR SELECT TO PUBLIC USING (tenant = (NULLIF(current_setting('baton.tenant'::text, true), ''::text))::bigint);
GRANT SELECT (tenant, task, number, run, version, principal, body) ON attempts TO reader;

CREATE TABLE births (
    tenant bigint NOT NULL,
    last bigint NOT NULL
) WITH (fillfactor=30, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000);
ALTER TABLE births ADD PRIMARY KEY (tenant);
ALTER TABLE births ADD FOREIGN KEY (tenant) REFERENCES tenants(id);

CREATE TABLE briefs (
    tenant bigint NOT NULL,
    task bigint NOT NULL,
    project text COLLATE "C" NOT NULL,
    parent bigint,
    version bigint NOT NULL,
    body bytea NOT NULL
);
ALTER TABLE briefs ADD PRIMARY KEY (tenant, task);
CREATE INDEX briefs_by_parent ON public.briefs USING btree (tenant, parent) WHERE (parent IS NOT NULL);
ALTER TABLE briefs ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON briefs FOR SELECT TO PUBLIC USING (tenant = (NULLIF(current_setting('baton.tenant'::text, true), ''::text))::bigint);
GRANT SELECT (tenant, task, project, parent, version, body) ON briefs TO reader;

CREATE TABLE channels (
    tenant bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    version bigint NOT NULL,
    progress bytea NOT NULL
);
ALTER TABLE channels ADD PRIMARY KEY (tenant, name);
ALTER TABLE channels ADD FOREIGN KEY (tenant) REFERENCES tenants(id);
ALTER TABLE channels ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON channels FOR SELECT TO PUBLIC USING (tenant = (NULLIF(current_setting('baton.tenant'::text, true), ''::text))::bigint);

CREATE TABLE checkpoints (
    tenant bigint NOT NULL,
    task bigint NOT NULL,
    number bigint NOT NULL,
    run bigint NOT NULL,
    version bigint NOT NULL,
    body bytea NOT NULL
);
ALTER TABLE checkpoints ADD PRIMARY KEY (tenant, task, number);
CREATE TRIGGER checkpoints_are_final BEFORE UPDATE ON public.checkpoints FOR EACH ROW EXECUTE FUNCTION refuse_change('a checkpoint never changes');
CREATE TRIGGER checkpoints_are_kept BEFORE DELETE ON public.checkpoints FOR EACH ROW EXECUTE FUNCTION refuse_change('a checkpoint is kept');
ALTER TABLE checkpoints ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON checkpoints FOR SELECT TO PUBLIC USING (tenant = (NULLIF(current_setting('baton.tenant'::text, true), ''::text))::bigint);
GRANT SELECT (tenant, task, number, run, version, body) ON checkpoints TO reader;

CREATE TABLE edges (
    tenant bigint NOT NULL,
    task bigint NOT NULL,
    on_task bigint NOT NULL
);
ALTER TABLE edges ADD PRIMARY KEY (tenant, task, on_task);
CREATE INDEX edges_by_target ON public.edges USING btree (tenant, on_task);
ALTER TABLE edges ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON edges FOR SELECT TO PUBLIC USING (tenant = (NULLIF(current_setting('baton.tenant'::text, true), ''::text))::bigint);
GRANT SELECT (tenant, task, on_task) ON edges TO reader;

CREATE TABLE events (
    tenant bigint NOT NULL,
    "position" bigint NOT NULL,
    task bigint NOT NULL,
    version bigint NOT NULL,
    at bigint NOT NULL,
    principal text COLLATE "C" NOT NULL,
    actor bytea NOT NULL,
    salt bytea,
    payload bytea,
    digest bytea,
    wrote bytea NOT NULL,
    link bytea NOT NULL
);
ALTER TABLE events ADD PRIMARY KEY (tenant, "position");
CREATE UNIQUE INDEX events_by_task ON public.events USING btree (tenant, task, version);
CREATE TRIGGER events_are_final BEFORE UPDATE ON public.events FOR EACH ROW WHEN (((old.digest IS NOT NULL) OR (new.payload IS NOT NULL) OR (new.salt IS NOT NULL) OR (new.digest IS NULL) OR (new.tenant <> old.tenant) OR (new."position" <> old."position") OR (new.task <> old.task) OR (new.version <> old.version) OR (new.at <> old.at) OR (new.principal <> old.principal) OR (new.actor <> old.actor) OR (new.wrote <> old.wrote) OR (new.link <> old.link))) EXECUTE FUNCTION refuse_change('an entry never changes');
CREATE TRIGGER events_are_kept BEFORE DELETE ON public.events FOR EACH ROW EXECUTE FUNCTION keep_entry();
ALTER TABLE events ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON events FOR SELECT TO PUBLIC USING (tenant = (NULLIF(current_setting('baton.tenant'::text, true), ''::text))::bigint);
GRANT SELECT (tenant, "position", task, version, at, principal, actor, payload, link) ON events TO reader;

CREATE TABLE flows (
    tenant bigint NOT NULL,
    task bigint NOT NULL,
    project text COLLATE "C" NOT NULL,
    stage text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    live boolean NOT NULL,
    lane bigint,
    probe bigint,
    ready_at bigint NOT NULL,
    due_at bigint,
    held boolean NOT NULL,
    epic boolean NOT NULL,
    ended_at bigint,
    head bytea NOT NULL,
    body bytea NOT NULL
) WITH (fillfactor=80, autovacuum_vacuum_scale_factor=0.02);
ALTER TABLE flows ADD PRIMARY KEY (tenant, task);
CREATE INDEX flows_by_due ON public.flows USING btree (tenant, due_at, task) WHERE (due_at IS NOT NULL);
CREATE INDEX flows_by_end ON public.flows USING btree (tenant, project, ended_at, task) WHERE (ended_at IS NOT NULL);
CREATE INDEX flows_by_lane ON public.flows USING btree (tenant, lane, ready_at, task) WHERE (lane IS NOT NULL);
CREATE INDEX flows_by_probe ON public.flows USING btree (tenant, probe, ready_at, task) WHERE (probe IS NOT NULL);
CREATE INDEX flows_live ON public.flows USING btree (tenant, task) WHERE live;
ALTER TABLE flows ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON flows FOR SELECT TO PUBLIC USING (tenant = (NULLIF(current_setting('baton.tenant'::text, true), ''::text))::bigint);
GRANT SELECT (tenant, task, project, stage, version, live, lane, probe, ready_at, due_at, held, epic, ended_at, head, body) ON flows TO reader;

CREATE TABLE keys (
    tenant bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    verifier bytea,
    former bytea,
    former_until bigint,
    used_at bigint
);
ALTER TABLE keys ADD UNIQUE (id);
ALTER TABLE keys ADD PRIMARY KEY (tenant, id);
ALTER TABLE keys ADD FOREIGN KEY (tenant) REFERENCES tenants(id);
ALTER TABLE keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON keys FOR SELECT TO PUBLIC USING (tenant = (NULLIF(current_setting('baton.tenant'::text, true), ''::text))::bigint);
GRANT SELECT (tenant, id, body, used_at) ON keys TO reader;

CREATE TABLE leases (
    tenant bigint NOT NULL,
    task bigint NOT NULL,
    attempt bigint NOT NULL,
    holder text COLLATE "C" NOT NULL,
    nonce bytea NOT NULL,
    expires_at bigint NOT NULL,
    length bigint NOT NULL,
    heard bigint NOT NULL DEFAULT 0
) WITH (fillfactor=70, autovacuum_vacuum_scale_factor=0.02);
ALTER TABLE leases ADD PRIMARY KEY (tenant, task);
CREATE INDEX leases_by_end ON public.leases USING btree (tenant, expires_at, task);
ALTER TABLE leases ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON leases FOR SELECT TO PUBLIC USING (tenant = (NULLIF(current_setting('baton.tenant'::text, true), ''::text))::bigint);
GRANT SELECT (tenant, task, attempt, holder, expires_at, length, heard) ON leases TO reader;

CREATE TABLE meta (
    name text NOT NULL,
    number bigint,
    bytes bytea
);
ALTER TABLE meta ADD PRIMARY KEY (name);

CREATE TABLE pools (
    tenant bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    shut_until bigint,
    body bytea NOT NULL
) WITH (fillfactor=50);
ALTER TABLE pools ADD PRIMARY KEY (tenant, name);
CREATE INDEX pools_by_opening ON public.pools USING btree (shut_until) WHERE (shut_until IS NOT NULL);
ALTER TABLE pools ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON pools FOR SELECT TO PUBLIC USING (tenant = (NULLIF(current_setting('baton.tenant'::text, true), ''::text))::bigint);
GRANT SELECT (tenant, name, shut_until, body) ON pools TO reader;

CREATE TABLE projects (
    tenant bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    body bytea NOT NULL
);
ALTER TABLE projects ADD PRIMARY KEY (tenant, name);
ALTER TABLE projects ADD FOREIGN KEY (tenant) REFERENCES tenants(id);
ALTER TABLE projects ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON projects FOR SELECT TO PUBLIC USING (tenant = (NULLIF(current_setting('baton.tenant'::text, true), ''::text))::bigint);
GRANT SELECT (tenant, name, body) ON projects TO reader;

CREATE TABLE reactions (
    tenant bigint NOT NULL,
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    task bigint NOT NULL,
    body bytea NOT NULL
);
ALTER TABLE reactions ADD PRIMARY KEY (tenant, id);

CREATE TABLE requests (
    tenant bigint NOT NULL,
    principal text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    at bigint NOT NULL,
    task bigint,
    entry_task bigint,
    entry bigint,
    attempt bigint,
    run bigint
);
ALTER TABLE requests ADD PRIMARY KEY (tenant, principal, key);
CREATE INDEX requests_by_age ON public.requests USING btree (at);
ALTER TABLE requests ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON requests FOR SELECT TO PUBLIC USING (tenant = (NULLIF(current_setting('baton.tenant'::text, true), ''::text))::bigint);
GRANT SELECT (tenant, principal, key, fingerprint, at, task, entry_task, entry, attempt, run) ON requests TO reader;

CREATE TABLE runs (
    tenant bigint NOT NULL,
    task bigint NOT NULL,
    number bigint NOT NULL,
    version bigint NOT NULL,
    body bytea NOT NULL
);
ALTER TABLE runs ADD PRIMARY KEY (tenant, task, number);
CREATE TRIGGER runs_are_final BEFORE UPDATE ON public.runs FOR EACH ROW EXECUTE FUNCTION refuse_change('a finished run never changes');
CREATE TRIGGER runs_are_kept BEFORE DELETE ON public.runs FOR EACH ROW EXECUTE FUNCTION refuse_change('a finished run is kept');
ALTER TABLE runs ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON runs FOR SELECT TO PUBLIC USING (tenant = (NULLIF(current_setting('baton.tenant'::text, true), ''::text))::bigint);
GRANT SELECT (tenant, task, number, version, body) ON runs TO reader;

CREATE TABLE seal_keys (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    key bytea NOT NULL,
    vouched bytea NOT NULL
);
ALTER TABLE seal_keys ADD UNIQUE (key);
ALTER TABLE seal_keys ADD PRIMARY KEY (id);

CREATE TABLE seals (
    tenant bigint NOT NULL,
    up_to bigint NOT NULL,
    digest bytea NOT NULL,
    key bytea NOT NULL,
    signature bytea NOT NULL
);
ALTER TABLE seals ADD PRIMARY KEY (tenant, up_to);
CREATE TRIGGER seals_are_final BEFORE UPDATE ON public.seals FOR EACH ROW EXECUTE FUNCTION refuse_change('a seal never changes');
CREATE TRIGGER seals_are_kept BEFORE DELETE ON public.seals FOR EACH ROW EXECUTE FUNCTION refuse_change('a seal is kept');

CREATE TABLE tenants (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    name text COLLATE "C" NOT NULL,
    floor bigint NOT NULL DEFAULT 0,
    "position" bigint NOT NULL DEFAULT 0,
    last_at bigint NOT NULL DEFAULT 0,
    records_version bigint NOT NULL DEFAULT 0,
    records_head bytea NOT NULL
) WITH (fillfactor=30, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000);
ALTER TABLE tenants ADD UNIQUE (name);
ALTER TABLE tenants ADD PRIMARY KEY (id);
ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON tenants FOR SELECT TO PUBLIC USING (id = (NULLIF(current_setting('baton.tenant'::text, true), ''::text))::bigint);
GRANT SELECT (id, name, floor, "position", last_at, records_version, records_head) ON tenants TO reader;

CREATE UNLOGGED TABLE watched (
    one boolean NOT NULL DEFAULT true,
    at bigint NOT NULL
);
ALTER TABLE watched ADD CHECK (one);
ALTER TABLE watched ADD PRIMARY KEY (one);

CREATE OR REPLACE FUNCTION public.keep_entry()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$ BEGIN
    IF OLD.position > (SELECT floor FROM tenants WHERE id = OLD.tenant) THEN
        RAISE EXCEPTION 'an entry is kept';
    END IF;
    RETURN OLD;
END $function$
;

CREATE OR REPLACE FUNCTION public.refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$ BEGIN RAISE EXCEPTION '%', TG_ARGV[0]; END $function$
;
