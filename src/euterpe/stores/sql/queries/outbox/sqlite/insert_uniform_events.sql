-- takes: requester_id, sequence, type, url, origin, before_event, before_job, piece_a, piece_b, piece_c, at, ids, job_ids
-- returns: nothing
-- locks: waits
-- `insert_event` for events that differ in nothing but ids: `:ids` and `:job_ids` are lists with commas. The body is put together here, of pieces that
-- are sent once. Ids are cut out of bytes, where the place of each is known: in a text, SQLite counts characters up to it.
INSERT INTO job_outbox_events (id, job_id, requester_id, sequence, type, url, origin, body, state, run_at, created_at,
                               updated_at)
SELECT id, job_id, :requester_id, :sequence, :type, :url, :origin,
       CAST(:before_event || id || :before_job || COALESCE(job_id || :piece_a, '') || COALESCE(job_id || :piece_b, '')
            || COALESCE(job_id || :piece_c, '') AS BLOB),
       'scheduled', :at, :at, :at
FROM (SELECT CAST(substr(CAST(:ids AS BLOB), key * 37 + 1, 36) AS TEXT) AS id, value AS job_id
      FROM json_each('["' || replace(:job_ids, ',', '","') || '"]'))
