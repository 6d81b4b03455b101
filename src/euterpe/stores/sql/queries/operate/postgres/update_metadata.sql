-- takes: id, priority, tags, correlation_id, callback_url, claim_version, state
-- returns: job_columns
-- locks: waits
-- What a requester may change of a job. The row is held, and its state is the one that was looked at. No state changes, so neither
-- updated_at nor the count of transitions does. With another priority a job that is ready has another place in the line.
WITH before AS MATERIALIZED (
    SELECT j.seq, j.queue, j.type, j.priority, j.requester_id, j.concurrency_key FROM inbox_jobs AS j
    WHERE j.id = :id AND j.state = 'scheduled' AND j.priority <> :priority
), changed AS (
    UPDATE inbox_jobs AS j
    SET priority = :priority, tags = :tags, correlation_id = :correlation_id, callback_url = :callback_url
    WHERE j.id = :id AND j.claim_version = :claim_version AND j.state = :state
    RETURNING *
), leaving AS (SELECT b.* FROM before AS b WHERE EXISTS (SELECT 1 FROM changed)), {{left}},
entering AS (SELECT c.* FROM changed AS c WHERE EXISTS (SELECT 1 FROM before)), {{enter}}
SELECT {{job_columns}} FROM changed AS j
