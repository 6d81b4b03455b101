-- takes: limit
-- returns: count
-- locks: skips
-- Claims whose first lease is over: each is told when the next lease of its running jobs ends, and is deleted if none runs. Heartbeats do
-- not write here.
WITH over AS MATERIALIZED (
    SELECT r.claim, r.seqs FROM euterpe_running AS r WHERE r.expires_at < {{now}} ORDER BY r.expires_at LIMIT :limit FOR UPDATE SKIP LOCKED
), left_over AS MATERIALIZED (
    SELECT o.claim, l.expires_at, l.seqs
    FROM over AS o, LATERAL (
        SELECT MIN(j.lease_expires_at) AS expires_at, array_agg(j.seq) AS seqs
        FROM unnest(o.seqs) AS n (seq) JOIN inbox_jobs AS j ON j.seq = n.seq WHERE j.lease_expires_at IS NOT NULL
    ) AS l
), gone AS (
    DELETE FROM euterpe_running AS r USING left_over AS l WHERE r.claim = l.claim AND l.seqs IS NULL
), moved_on AS (
    UPDATE euterpe_running AS r SET expires_at = l.expires_at, seqs = l.seqs
    FROM left_over AS l WHERE r.claim = l.claim AND l.expires_at >= {{now}}
)
SELECT COUNT(*) FROM left_over AS l WHERE l.seqs IS NULL OR l.expires_at >= {{now}}
