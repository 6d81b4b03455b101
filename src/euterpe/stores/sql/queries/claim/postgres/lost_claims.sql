-- takes: request, worker_ids
-- returns: job_columns
-- locks: none
-- The jobs of a claim whose answer was lost, as far as it is committed.
SELECT {{job_columns}}
FROM euterpe_running AS r, unnest(r.seqs) AS n (seq), inbox_jobs AS j
WHERE r.request = :request AND j.seq = n.seq AND j.worker_id {{in worker_ids text}} AND j.lease_expires_at IS NOT NULL
