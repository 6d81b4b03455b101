-- Release what waited for these jobs alone, which have just completed, and claim the next, as `claim` does: those that are released
-- now have their place in the line, and one that is taken at once is written once instead of twice.
-- After the statement that settled: it held the rows of these jobs, so nobody adds a dependent that this one does not see.
-- Of a job that waits for more, is told of to a callback, or is of an unknown kind, nothing is changed here: `waiting_dependents` finds it.
-- Nor of one that somebody else changes meanwhile so that it does not fit any more.
-- As in `exchange` none is taken if one that is next in line is not plain, or while the queue has chunks (ADR 017).
-- The first five columns are the same in every row: how many still wait for these jobs, two NULLs, whether the line was
-- plain, and whether there are chunks; then comes a job that was taken, or NULLs. Behind it: whether it was taken, and what it depends
-- on, in the order of `dependency_ids`, if it was released here.
-- No more are picked than there are places behind the released ones that come before all others. Rows are held in the order of ids.
WITH chunks AS MATERIALIZED (
    SELECT CAST(:limit AS integer) + CAST(:prefetch AS integer) > 0 AND EXISTS (
        SELECT 1 FROM euterpe_ready AS r WHERE {{ready}}) AS are_there
), ended AS MATERIALIZED (
    SELECT d.job_id AS id, COUNT(*) AS ends
    FROM job_dependencies AS d
    WHERE d.depends_on = ANY (CAST(string_to_array(:ids, ',') AS uuid[]))
    GROUP BY d.job_id
), waiting AS MATERIALIZED (
    SELECT w.id, w.ctid AS at, e.ends, w.priority, w.seq, {{plain}} AS plain, {{prefetchable}} AS can_wait,
           w.pending_dependencies = e.ends AND w.callback_url IS NULL AND w.dependency {{in kinds text}} AS is_freed,
           {{unpaused}} AND NOT w.parked AND w.run_at <= {{now}} AND NOT (SELECT are_there FROM chunks)
           AND (CAST(:types AS text[]) IS NULL OR type = ANY (CAST(:types AS text[]))) AS is_claimable
    FROM ended AS e JOIN inbox_jobs AS w ON w.id = e.id
    WHERE w.pending_dependencies > 0
), head AS MATERIALIZED (
    SELECT w.priority, w.seq
    FROM inbox_jobs AS w
    WHERE {{claimable}} AND NOT (SELECT are_there FROM chunks)
      AND (CAST(:types AS text[]) IS NULL OR type = ANY (CAST(:types AS text[])))
    ORDER BY priority, seq LIMIT 1
), before_all AS MATERIALIZED (
    SELECT COUNT(*) AS jobs FROM waiting AS w
    WHERE w.is_freed AND w.is_claimable
      AND ((w.priority, w.seq) < (SELECT f.priority, f.seq FROM head AS f)) IS NOT FALSE
), picked AS MATERIALIZED (
    SELECT w.ctid AS at, {{plain}} AS plain, w.priority, w.seq, {{prefetchable}} AS can_wait
    FROM inbox_jobs AS w
    WHERE {{claimable}} AND NOT (SELECT are_there FROM chunks)
      AND (CAST(:types AS text[]) IS NULL OR type = ANY (CAST(:types AS text[])))
    ORDER BY priority, seq
    LIMIT (SELECT GREATEST(CAST(:limit AS integer) + CAST(:prefetch AS integer) - jobs, 0) FROM before_all)
    FOR UPDATE OF w SKIP LOCKED
), placed AS MATERIALIZED (
    SELECT m.*, row_number() OVER (PARTITION BY m.is_claimable ORDER BY m.priority, m.seq) AS place
    FROM (SELECT w.id, w.ends, w.at, w.priority, w.seq, w.plain, w.can_wait, w.is_claimable FROM waiting AS w WHERE w.is_freed
          UNION ALL
          SELECT NULL, NULL, p.at, p.priority, p.seq, p.plain, p.can_wait, true FROM picked AS p) AS m
), line AS MATERIALIZED (
    SELECT bool_and(plain) AS plain, MIN(place) FILTER (WHERE place > :limit AND NOT can_wait) AS ends_before
    FROM placed
    WHERE is_claimable AND place <= CAST(:limit AS integer) + CAST(:prefetch AS integer)
), decided AS MATERIALIZED (
    SELECT p.ends, p.at,
           p.is_claimable AND l.plain AND p.place <= CAST(:limit AS integer) + CAST(:prefetch AS integer)
           AND (p.place >= l.ends_before) IS NOT TRUE AS taken
    FROM placed AS p, line AS l
    ORDER BY p.id
), released AS (
    UPDATE inbox_jobs AS j
    SET pending_dependencies = 0, updated_at = {{now}},
        scheduled_at = CASE WHEN j.run_at > {{now}} THEN j.scheduled_at ELSE {{now}} END,
        state = CASE WHEN d.taken THEN 'running' WHEN j.run_at > {{now}} THEN 'delayed' ELSE 'scheduled' END,
        transitions = j.transitions + CASE WHEN d.taken THEN 2 ELSE 1 END,
        claim_version = j.claim_version + CASE WHEN d.taken THEN 1 ELSE 0 END,
        attempt_count = j.attempt_count + CASE WHEN d.taken THEN 1 ELSE 0 END,
        stage = CASE WHEN d.taken THEN 'claimed' ELSE j.stage END,
        stage_ordinal = CASE WHEN d.taken THEN 0 ELSE j.stage_ordinal END,
        heartbeat_at = CASE WHEN d.taken THEN {{now}} ELSE j.heartbeat_at END,
        started_at = CASE WHEN d.taken THEN {{now}} ELSE j.started_at END,
        worker_id = CASE WHEN d.taken THEN :worker_id ELSE j.worker_id END,
        lease_expires_at = CASE WHEN d.taken
            THEN {{now}} + LEAST(:lease_ttl_us, j.visibility_us, j.execution_timeout_us + {{overrun}}) END
    FROM decided AS d
    WHERE j.ctid = d.at AND j.pending_dependencies = d.ends AND j.callback_url IS NULL
    RETURNING {{taken_columns}}, d.taken,
        CASE WHEN d.taken THEN ARRAY(SELECT CAST(e.depends_on AS text) FROM job_dependencies AS e WHERE e.job_id = j.id
                                     ORDER BY e.position, e.depends_on) END
), picked_up AS (
    UPDATE inbox_jobs AS j
    SET {{leased}}
    FROM decided AS d
    WHERE j.ctid = d.at AND d.ends IS NULL AND d.taken
    RETURNING {{taken_columns}}, true, CAST(NULL AS text[])
), counted AS MATERIALIZED (
    SELECT (SELECT COUNT(*) FROM waiting) - (SELECT COUNT(*) FROM released) AS left_waiting
)
SELECT counted.left_waiting, NULL, NULL, line.plain, chunks.are_there, j.*
FROM counted CROSS JOIN line CROSS JOIN chunks
LEFT JOIN (SELECT * FROM released WHERE taken UNION ALL SELECT * FROM picked_up) AS j ON true
