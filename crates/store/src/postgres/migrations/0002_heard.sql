-- The last number under which the supervisor of an attempt was heard, so that a report that is sent
-- again is not carried out again.
ALTER TABLE leases ADD COLUMN heard int8 NOT NULL DEFAULT 0;
