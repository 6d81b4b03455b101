taken AS (
    UPDATE inbox_jobs AS j
    SET {{leased}}
    FROM unnest(ARRAY(SELECT n.seq FROM numbers AS n), ARRAY(SELECT n.priority FROM numbers AS n), ARRAY(SELECT n.place FROM numbers AS n))
        AS n (seq, priority, place)
    WHERE j.seq = n.seq AND j.priority = n.priority AND j.state = 'scheduled'
    RETURNING {{taken_columns}}, j.concurrency_key, j.concurrency_limit, j.lease_expires_at, (CAST(:worker_ids AS text[]))[n.place]
), ends AS MATERIALIZED (
    -- A claim that came short asks again (1) where others held a part of the line, or took, ended or moved jobs that a run still covered; or (2) admits
    -- jobs of keys first, where some have a token or come from a caller's transaction.
    SELECT CASE WHEN taken.jobs >= w.now THEN 0
                WHEN b.before IS NOT NULL OR taken.jobs < (SELECT COUNT(*) FROM numbers)
                     OR (SELECT COUNT(*) FROM held) < (SELECT COUNT(*) FROM front) THEN 1
                WHEN EXISTS (SELECT 1 FROM euterpe_keys AS k WHERE k.due_at <= {{now}}) OR EXISTS (SELECT 1 FROM euterpe_entered_keys) THEN 2
                ELSE 0 END AS again,
           COALESCE(s.tells < w.total AND (s.cannot_wait < s.tells) IS NOT TRUE, false) AS at_telling
    FROM wanted AS w, stops AS s, bound AS b, (SELECT COUNT(*) AS jobs FROM taken) AS taken
)
