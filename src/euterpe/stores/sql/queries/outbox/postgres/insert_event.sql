-- takes: rows of id, job_id, requester_id, sequence, type, url, origin, body, at
-- returns: nothing
-- locks: waits
-- Events, in the transaction of the changes they tell of.
INSERT INTO job_outbox_events (id, job_id, requester_id, sequence, type, url, origin, body, state, run_at, created_at, updated_at)
SELECT i.id, i.job_id, i.requester_id, i.sequence, i.type, i.url, i.origin, i.body, 'scheduled', i.at, i.at, i.at
FROM unnest(CAST(:id AS uuid[]), CAST(:job_id AS uuid[]), CAST(:requester_id AS text[]),
            CAST(:sequence AS bigint[]), CAST(:type AS text[]), CAST(:url AS text[]), CAST(:origin AS text[]), CAST(:body AS bytea[]),
            CAST(:at AS bigint[]))
    AS i (id, job_id, requester_id, sequence, type, url, origin, body, at)
