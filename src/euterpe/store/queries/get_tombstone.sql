-- What is left of a pruned job.
SELECT requester_id, state, pruned_at FROM job_tombstones WHERE job_id = :id
