-- takes: each id, requester_id, state
-- returns: nothing
-- locks: waits
-- A tombstone for a pruned job.
INSERT INTO euterpe_tombstones (job_id, requester_id, state, pruned_at)
VALUES (:id, :requester_id, :state, {{now}}) ON CONFLICT DO NOTHING
