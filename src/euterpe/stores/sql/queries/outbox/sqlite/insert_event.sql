-- takes: rows of id, job_id, requester_id, sequence, type, url, origin, body, at
-- returns: nothing
-- locks: waits
-- Events, in the transaction of the changes they tell of.
INSERT INTO job_outbox_events (id, job_id, requester_id, sequence, type, url, origin, body, state, run_at, created_at,
                               updated_at)
SELECT id, job_id, requester_id, sequence, type, url, origin, body, 'scheduled', at, at, at
FROM {{rows id job_id requester_id sequence type url origin body at}}
