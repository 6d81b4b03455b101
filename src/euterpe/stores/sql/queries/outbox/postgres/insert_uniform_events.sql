-- takes: requester_id, sequence, type, url, origin, before_event, before_job, piece_a, piece_b, piece_c, at, ids, job_ids
-- returns: nothing
-- locks: waits
-- `insert_event` for events that differ in nothing but ids: `:ids` and `:job_ids` are lists with commas. The body is put together here, of pieces that
-- are sent once: the driver looks at every element of an array three times, in Python.
INSERT INTO job_outbox_events (id, job_id, requester_id, sequence, type, url, origin, body, state, run_at, created_at, updated_at)
SELECT CAST(i.id AS uuid), CAST(i.job_id AS uuid), :requester_id, :sequence, :type, :url, :origin,
       convert_to(CAST(:before_event AS text) || i.id || CAST(:before_job AS text) || COALESCE(i.job_id || CAST(:piece_a AS text), '')
                  || COALESCE(i.job_id || CAST(:piece_b AS text), '') || COALESCE(i.job_id || CAST(:piece_c AS text), ''), 'UTF8'),
       'scheduled', CAST(:at AS bigint), CAST(:at AS bigint), CAST(:at AS bigint)
FROM unnest(string_to_array(:ids, ','), string_to_array(:job_ids, ',')) AS i (id, job_id)
