-- The jobs at the front of a queue that may be claimed, in the order of claims: the first :limit runs of each kind, and so many of their rows as
-- are asked for.
(SELECT r.priority, r.rank, r.seq, r.jobs
 FROM {{queue_kinds}} AS k, LATERAL (SELECT r.* FROM euterpe_line AS r
                                     WHERE r.queue = :queue AND r.type = k.type AND r.priority = k.priority AND r.expires_at > {{now}}
                                     ORDER BY r.rank, r.seq LIMIT :limit) AS r
 WHERE k.type NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'type')
   AND NOT EXISTS (SELECT 1 FROM euterpe_pauses WHERE kind = 'queue' AND name = :queue)
 ORDER BY r.priority, r.rank, r.seq) AS r,
LATERAL generate_series(r.seq, r.seq + r.jobs - 1) AS n (seq),
LATERAL (SELECT * FROM inbox_jobs AS v WHERE v.seq = n.seq AND v.state = 'scheduled' AND v.priority = r.priority LIMIT 1) AS j
