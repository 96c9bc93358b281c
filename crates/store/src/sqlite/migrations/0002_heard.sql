-- The last number under which the supervisor of an attempt was heard, so that a report that is sent
-- again is not carried out again.
ALTER TABLE leases ADD COLUMN heard INTEGER NOT NULL DEFAULT 0;
