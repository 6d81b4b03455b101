-- What has just become scheduled goes into the line; neighbours of one queue, type, priority, requester and lifetime stand in one run.
-- A job with a concurrency key goes into its key's own line, and `admit` decides next. `entering` has `entering_columns`.
line AS (
    INSERT INTO euterpe_line (queue, type, priority, seq, jobs, expires_at, since, can_wait, tells)
    SELECT r.queue, r.type, r.priority, MIN(r.seq), COUNT(*), r.expires_at, MIN(r.scheduled_at), r.can_wait, r.tells
    FROM (SELECT e.*, row_number() OVER kind AS place
          FROM (SELECT j.seq, j.queue, j.type, j.priority, j.expires_at, j.scheduled_at, j.requester_id, {{can_wait}} AS can_wait, {{tells}} AS tells
                FROM entering AS j WHERE j.state = 'scheduled' AND j.concurrency_key IS NULL) AS e
          WINDOW kind AS (PARTITION BY e.queue, e.type, e.priority, e.requester_id, e.expires_at, e.can_wait, e.tells ORDER BY e.seq)) AS r
    GROUP BY r.queue, r.type, r.priority, r.requester_id, r.expires_at, r.can_wait, r.tells, r.seq - r.place, (r.place - 1) / 250
), key_line AS (
    INSERT INTO euterpe_key_line (key, queue, type, priority, seq, since, expires_at, most, can_wait, tells)
    SELECT {{limit_key}}, j.queue, j.type, j.priority, j.seq, j.scheduled_at, j.expires_at, j.concurrency_limit, {{can_wait}}, {{tells}}
    FROM entering AS j WHERE j.state = 'scheduled' AND j.concurrency_key IS NOT NULL
    ON CONFLICT DO NOTHING
)
