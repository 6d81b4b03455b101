-- takes: after, limit, forgotten_us
-- returns: last, jobs, queue, limit_key, job_id
-- locks: skips
-- Jobs that are ready and stand in no line enter it, among the next :limit behind a number; and jobs whose leases ended long ago and that are in no claim
-- are put into one. There are none unless a statement forgot them. Returns the last number, how many were looked at, and of each that entered the
-- queue, the key and the id.
WITH page AS MATERIALIZED (
    SELECT j.seq, j.queue, j.type, j.priority, j.state, j.requester_id, j.concurrency_key, j.lease_expires_at
    FROM inbox_jobs AS j WHERE j.seq > :after ORDER BY j.seq LIMIT :limit
), lost AS MATERIALIZED (
    SELECT j.seq FROM page AS j
    WHERE j.state = 'scheduled'
      AND (SELECT r.seq FROM euterpe_line AS r
           WHERE r.queue = j.queue AND r.type = j.type AND r.priority = j.priority AND r.rank = 0 AND r.seq = j.seq LIMIT 1) IS NULL
      AND CASE WHEN j.concurrency_key IS NULL THEN
               (SELECT r.seq FROM euterpe_line AS r
                WHERE r.queue = j.queue AND r.type = j.type AND r.priority = j.priority AND r.rank = 0
                  AND r.seq BETWEEN j.seq - 249 AND j.seq AND r.seq + r.jobs > j.seq LIMIT 1) IS NULL
               ELSE (SELECT l.seq FROM euterpe_key_line AS l
                     WHERE l.key = {{limit_key}} AND l.queue = j.queue AND l.type = j.type AND l.priority = j.priority AND l.seq = j.seq) IS NULL
          END
), entering AS MATERIALIZED (
    SELECT CAST(j.id AS text) AS job_id, {{entering_columns}} FROM inbox_jobs AS j
    WHERE j.seq = ANY (ARRAY(SELECT l.seq FROM lost AS l)) AND j.state = 'scheduled'
    FOR NO KEY UPDATE SKIP LOCKED
), {{enter}}, forgotten AS (
    INSERT INTO euterpe_running (expires_at, request, worker_id, seqs)
    SELECT MIN(p.lease_expires_at), 0, '', array_agg(p.seq) FROM page AS p
    WHERE p.lease_expires_at < {{now}} - :forgotten_us AND p.seq NOT IN ({{running_seqs}})
    HAVING COUNT(*) > 0
)
SELECT e.last, e.jobs, j.queue, {{limit_key}}, j.job_id
FROM (SELECT MAX(p.seq) AS last, COUNT(*) AS jobs FROM page AS p) AS e LEFT JOIN entering AS j ON true
