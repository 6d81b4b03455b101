-- As the shared text. What waits in a chunk is filed among what has completed, and may be older: it is passed over.
SELECT CAST(j.id AS TEXT), j.requester_id, j.state FROM inbox_jobs AS j
WHERE j.id IN (SELECT o.id
               FROM (SELECT w.id, w.completed_at
                     FROM (SELECT CAST(:state AS text) AS state) AS s,
                     LATERAL (SELECT x FROM unnest(COALESCE({{plain_ranges}}, {{everywhere}})) AS x ORDER BY x) AS p,
                     LATERAL (SELECT w.id, w.completed_at FROM inbox_jobs AS w
                              WHERE w.indexed_state = s.state AND w.seq >= lower(p.x) AND w.seq < upper(p.x)
                              ORDER BY w.seq LIMIT 10 * :limit) AS w
                     LIMIT 10 * :limit) AS o
               WHERE o.completed_at <= {{now}} - :keep_us
               LIMIT :limit)
  AND j.state || '' = :state AND j.completed_at <= {{now}} - :keep_us
{{skip_locked}}
