-- By which ways people are told, and how far each is: version counts what was noted of it.
CREATE TABLE channels (
    tenant   bigint NOT NULL REFERENCES tenants (id),
    name     text COLLATE "C" NOT NULL,
    body     bytea NOT NULL,
    version  bigint NOT NULL,
    progress bytea NOT NULL,
    PRIMARY KEY (tenant, name)
);

ALTER TABLE channels ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON channels FOR SELECT
    USING (tenant = nullif(current_setting('baton.tenant', true), '')::bigint);
