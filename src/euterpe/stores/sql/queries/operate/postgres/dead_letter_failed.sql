-- takes: id, claim_version
-- returns: moved_columns, claim_version, queue, type
-- locks: waits
-- ends: failed jobs
-- Policy: a failed job that nobody will retry goes to the dead letter.
UPDATE inbox_jobs AS j
SET state = 'dead_letter', listed = 'dead_letter', updated_at = {{now}}, transitions = j.transitions + 1
WHERE j.id = :id AND j.claim_version = :claim_version AND j.state = 'failed'
RETURNING {{moved_columns}}, j.claim_version, j.queue, j.type
