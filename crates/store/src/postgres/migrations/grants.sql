-- Whoever reads for a tenant sees that tenant's rows, whatever the query says. A copy brings no
-- rights back, so they are given apart.
GRANT SELECT ON tenants, projects, briefs, flows, leases, runs, attempts, checkpoints, edges,
    pools, keys, events, requests TO baton_reader;
