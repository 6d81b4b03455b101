-- takes: id, claim_version, holds_key
-- returns: job_columns
-- locks: waits
-- An operator gives a failed job another go, only while its budget lasts. One with a unique key must hold that.
WITH entering AS (
    UPDATE inbox_jobs AS j
    SET state = 'scheduled', listed = NULL, scheduled_at = {{now}}, run_at = {{now}}, completed_at = NULL, updated_at = {{now}},
        fingerprint = NULL, failed_at = NULL, replayed_as = NULL, transitions = j.transitions + 1
    WHERE j.id = :id AND j.claim_version = :claim_version AND j.state = 'failed' AND j.attempt_count < j.max_attempts
      AND (j.unique_key IS NULL OR CAST(:holds_key AS boolean))
    RETURNING *
), {{enter}}
SELECT {{job_columns}} FROM entering AS j
