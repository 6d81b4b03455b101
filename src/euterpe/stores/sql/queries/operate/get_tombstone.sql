-- takes: id
-- returns: requester_id, state, pruned_at
-- locks: none
-- What is left of a pruned job.
SELECT requester_id, state, pruned_at FROM euterpe_tombstones WHERE job_id = :id
