-- takes: rows of name, look
-- returns: name, queue
-- locks: skips
-- As `admit`, for keys of which jobs became ready or tokens went. It looks at so many (:look) of those in the line, too: a less urgent or paused one
-- gives its place to one that waits, and so does what is in the line without a token.
WITH {{key_room}}, looking AS MATERIALIZED (
    -- Most often what is in the line is more urgent than all that wait, and need not be looked at.
    SELECT k.name, k.running, k.in_line, k.least, k.passed, k.tokens, k.next_at, k.due_at,
           CASE WHEN k.tokens IS NULL AND k.passed IS NULL AND NOT EXISTS (SELECT 1 FROM euterpe_pauses)
                     AND ((SELECT ROW(r.priority, r.seq) FROM euterpe_line AS r WHERE r.key = k.name ORDER BY r.key DESC, r.priority DESC, r.seq DESC LIMIT 1)
                          > (SELECT ROW(w.priority, w.seq) FROM {{key_kinds}} AS w ORDER BY w.priority, w.seq LIMIT 1)) IS NOT TRUE
                THEN 0 ELSE k.look END AS look
    FROM room AS k
), {{key_ahead}}, firsts AS MATERIALIZED (
    SELECT a.name, a.places FROM ahead AS a WHERE a.place = 1
), inside AS MATERIALIZED (
    -- Who is in the line, the first to go first. Each gives way to the one that waits at the place `beside`, if that is better.
    SELECT i.*, i.n - i.over + i.free AS beside
    FROM (SELECT k.name, r.*, row_number() OVER (PARTITION BY k.name ORDER BY r.standing DESC, r.priority DESC, r.seq DESC) AS n,
                 GREATEST(0, k.in_line - k.tokens) AS over, GREATEST(0, COALESCE(LEAST(k.tokens, f.places), 1000) - k.in_line) AS free
          FROM looking AS k LEFT JOIN firsts AS f ON f.name = k.name, LATERAL (
              SELECT r.ctid AS at, r.priority, r.seq,
                     CASE WHEN EXISTS (SELECT 1 FROM euterpe_pauses AS p WHERE p.kind = 'type' AND p.name = r.type)
                            OR EXISTS (SELECT 1 FROM euterpe_pauses AS p WHERE p.kind = 'queue' AND p.name = r.queue) THEN 2
                          WHEN r.queue || chr(31) || r.type = ANY (k.passed) THEN 1 ELSE 0 END AS standing
              FROM euterpe_line AS r WHERE r.key = k.name
              ORDER BY r.key DESC, r.priority DESC, r.seq DESC LIMIT k.look
          ) AS r) AS i
), pairs AS MATERIALIZED (
    SELECT p.at, p.n <= p.over OR (p.standing, p.priority, p.seq) > (MIN(p.w_standing) OVER pair, MIN(p.w_priority) OVER pair, MIN(p.w_seq) OVER pair) AS goes
    FROM (SELECT i.name, i.beside AS place, i.at, i.n, i.over, i.standing, i.priority, i.seq,
                 CAST(NULL AS integer) AS w_standing, CAST(NULL AS smallint) AS w_priority, CAST(NULL AS bigint) AS w_seq FROM inside AS i
          UNION ALL
          SELECT a.name, a.place, NULL, NULL, NULL, NULL, NULL, NULL, CASE WHEN a.is_passed THEN 1 ELSE 0 END, a.priority, a.seq FROM ahead AS a) AS p
    WINDOW pair AS (PARTITION BY p.name, p.place)
), leaving AS MATERIALIZED (
    -- What a claim holds is being taken.
    SELECT r.ctid AS at, r.queue, r.type, r.priority, r.seq, r.since, r.expires_at, r.tells, r.key
    FROM euterpe_line AS r
    WHERE r.ctid = ANY (ARRAY(SELECT p.at FROM pairs AS p WHERE p.goes AND p.at IS NOT NULL))
    FOR UPDATE OF r SKIP LOCKED
), left_line AS (
    DELETE FROM euterpe_line AS r USING leaving AS l WHERE r.ctid = l.at
), returned AS (
    INSERT INTO euterpe_key_line (key, queue, type, priority, seq, since, expires_at, most, can_wait, tells)
    SELECT l.key, l.queue, l.type, l.priority, l.seq, l.since, l.expires_at, j.concurrency_limit, {{can_wait}}, l.tells
    FROM leaving AS l JOIN inbox_jobs AS j ON j.seq = l.seq
), given AS MATERIALIZED (
    SELECT g.name, CAST(MAX(g.in_line) - COUNT(g.gone) AS integer) AS in_line, MIN(g.least) AS least, MIN(g.next_at) AS next_at
    FROM (SELECT k.name, k.in_line, k.least, k.next_at, CAST(NULL AS integer) AS gone FROM room AS k
          UNION ALL SELECT l.key, NULL, NULL, NULL, 1 FROM leaving AS l) AS g
    GROUP BY g.name
), asked AS MATERIALIZED (
    SELECT b.*, (b.in_line + b.place > b.places) IS TRUE AS lacks_place, (b.in_line + b.place > b.tokens) IS TRUE AS lacks_token
    FROM (SELECT a.name, a.in_line - CAST(COUNT(a.gone) OVER (PARTITION BY a.name) AS integer) AS in_line, a.least, a.tokens, a.next_at, a.queue, a.type,
                 a.priority, a.seq, a.since, a.expires_at, a.most, a.can_wait, a.tells, a.places, a.place
          FROM (SELECT a.name, a.in_line, a.least, a.tokens, a.next_at, a.queue, a.type, a.priority, a.seq, a.since, a.expires_at, a.most,
                       a.can_wait, a.tells, a.places, a.place, CAST(NULL AS integer) AS gone FROM ahead AS a
                UNION ALL
                SELECT l.key, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1 FROM leaving AS l) AS a) AS b
    WHERE b.seq IS NOT NULL
), {{key_admitted}}
SELECT a.name, a.queue FROM admitted AS a
