-- The front of the line. A look without a lock tells which runs to take: the next ones of each kind, merged in one order, up to the first job that
-- tells when it begins (unless :may_tell), and behind the first :limit jobs up to the first that cannot wait. Where one kind of single jobs is
-- wanted, it looks at twice as many, because others may be taking the first ones.
ahead AS MATERIALIZED (
    SELECT k.place, k.queue, c.*, CAST(SUM(c.size) OVER line AS bigint) - c.size AS before
    FROM kinds AS k, LATERAL (
        SELECT r.type, r.priority, r.rank, r.seq, r.jobs AS size, {{is_long}} AS is_long, r.key, r.tells AND NOT CAST(:may_tell AS boolean) AS tells,
               {{waits}} AS can_wait
        FROM euterpe_line AS r
        WHERE r.queue = k.queue AND r.type = k.type AND {{takeable}}
        ORDER BY r.priority, r.rank, r.seq
        LIMIT (SELECT 2 * total FROM wanted)
    ) AS c
    WINDOW line AS (ORDER BY k.place, c.priority, c.rank, c.seq)
), stops AS MATERIALIZED (
    SELECT MIN(a.before) FILTER (WHERE a.tells) AS tells,
           MIN(a.before) FILTER (WHERE NOT a.can_wait AND a.before + a.size > w.now) AS cannot_wait,
           CASE WHEN MIN(a.type) <> MAX(a.type) OR MIN(a.place) <> MAX(a.place) OR bool_or(a.is_long AND a.before < w.total) THEN MAX(w.total)
                ELSE MIN(a.before) FILTER (WHERE a.before >= w.total AND (a.is_long OR a.key IS NOT NULL)) END AS behind
    FROM ahead AS a, wanted AS w
), region AS MATERIALIZED (
    SELECT a.*, a.before < w.total AS is_front
    FROM ahead AS a, stops AS s, wanted AS w
    WHERE (a.before >= s.tells) IS NOT TRUE AND (a.before >= s.behind) IS NOT TRUE
      AND (a.before >= s.cannot_wait AND (a.before > s.cannot_wait OR a.before >= w.now)) IS NOT TRUE
), front AS MATERIALIZED (SELECT f.* FROM region AS f WHERE f.is_front), long_shares AS MATERIALIZED (
    SELECT s.*, l.priority, l.rank, l.seq
    FROM (SELECT r.place, r.queue, r.type, COUNT(*) AS runs, MAX(r.before) AS last FROM region AS r WHERE r.is_long GROUP BY r.place, r.queue, r.type) AS s
    JOIN region AS l ON l.before = s.last
), held_long AS MATERIALIZED (
    -- Longer runs first: one that another claim holds, or has just shortened, bounds the line, and neither it nor anything behind it is taken.
    SELECT s.place, r.*
    FROM long_shares AS s, LATERAL (
        SELECT {{held_columns}}
        FROM euterpe_line AS r
        WHERE r.queue = s.queue AND r.type = s.type AND {{is_long}} AND (r.priority, r.rank, r.seq) <= (s.priority, s.rank, s.seq) AND {{takeable}}
        ORDER BY r.priority, r.rank, r.seq
        LIMIT s.runs
        FOR UPDATE SKIP LOCKED
    ) AS r
), long AS MATERIALIZED (
    -- A run that is there twice was held as the look saw it.
    SELECT x.*, COUNT(*) OVER run AS times, MIN(x.before) OVER run AS seen
    FROM (SELECT r.place, CAST(NULL AS tid) AS at, r.queue, r.type, r.priority, r.rank, r.seq, r.size, r.key, r.can_wait, r.before
          FROM region AS r WHERE r.is_long
          UNION ALL
          SELECT h.*, NULL FROM held_long AS h) AS x
    WINDOW run AS (PARTITION BY x.place, x.type, x.priority, x.rank, x.seq)
), bound AS MATERIALIZED (
    SELECT MIN(l.before) AS before FROM long AS l WHERE l.times = 1
), free_keys AS MATERIALIZED (
    -- A job whose concurrency key somebody holds is passed over: a claim waits for no key.
    SELECT k.name FROM euterpe_keys AS k WHERE k.name = ANY (ARRAY(SELECT f.key FROM front AS f WHERE f.key IS NOT NULL))
    FOR NO KEY UPDATE SKIP LOCKED
), shares AS MATERIALIZED (
    SELECT s.*, l.priority, l.rank, l.seq
    FROM (SELECT r.place, r.queue, r.type, COUNT(*) FILTER (WHERE r.is_front) AS runs, MAX(r.before) AS last
          FROM region AS r, bound AS b WHERE NOT r.is_long AND (r.before >= b.before) IS NOT TRUE GROUP BY r.place, r.queue, r.type) AS s
    JOIN region AS l ON l.before = s.last
), held AS MATERIALIZED (
    -- Then single jobs, as many of each kind as the front has of it. Those that others hold are being taken, and are passed over. So whatever single job
    -- is held here is taken: else others would pass it over in vain, and take what is behind it.
    SELECT s.place, r.*
    FROM shares AS s, LATERAL (
        SELECT {{held_columns}}
        FROM euterpe_line AS r
        WHERE r.queue = s.queue AND r.type = s.type AND NOT {{is_long}} AND (r.priority, r.rank, r.seq) <= (s.priority, s.rank, s.seq) AND {{takeable}}
          AND (r.key IS NULL OR r.key = ANY (ARRAY(SELECT k.name FROM free_keys AS k)))
        ORDER BY r.priority, r.rank, r.seq
        LIMIT s.runs
        FOR UPDATE SKIP LOCKED
    ) AS r
    UNION ALL
    SELECT l.place, l.at, l.queue, l.type, l.priority, l.rank, l.seq, l.size, l.key, l.can_wait
    FROM long AS l, bound AS b WHERE l.at IS NOT NULL AND l.times > 1 AND (l.seen >= b.before) IS NOT TRUE
)
