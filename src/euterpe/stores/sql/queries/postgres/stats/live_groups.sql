-- Jobs of a state that has not ended, the oldest up to a limit: by queue and type, and since when the first is there.
SELECT r.queue, r.type, COUNT(*), MIN(r.since)
FROM (SELECT o.*
      FROM (SELECT CAST(:state AS text) AS state) AS s, LATERAL (
          (SELECT w.seq, w.queue, w.type, w.requester_id, COALESCE(w.scheduled_at, w.created_at) AS since
           FROM inbox_jobs AS w WHERE w.indexed_state = s.state ORDER BY w.seq LIMIT :limit)
          UNION ALL
          (SELECT f.*
           FROM (SELECT x FROM unnest({{plain_ranges}}) AS x ORDER BY x) AS p,
           LATERAL (SELECT w.seq, w.queue, w.type, w.requester_id, COALESCE(w.scheduled_at, w.created_at)
                    FROM inbox_jobs AS w WHERE {{within}} AND w.state || '' = s.state ORDER BY w.seq LIMIT :limit) AS f
           LIMIT :limit)
      ) AS o
      ORDER BY o.seq LIMIT :limit) AS r
WHERE CAST(:requester_id AS TEXT) IS NULL OR r.requester_id = :requester_id
GROUP BY r.queue, r.type
