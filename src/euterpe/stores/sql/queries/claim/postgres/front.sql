-- The front of the line. A look without a lock tells which runs to take: the next ones of each kind, merged in one order, up to the first job that
-- tells when it begins (unless :may_tell), and behind the first :limit jobs up to the first that cannot wait. Single jobs that another transaction is
-- taking are passed over here, so two lanes of a worker do not look at the same jobs.
others AS MATERIALIZED (
    SELECT ARRAY(SELECT CAST(CAST(x.id AS text) AS bigint) & 4294967295 FROM pg_snapshot_xip(s.snapshot) AS x (id)) AS running,
           CAST(CAST(pg_snapshot_xmax(s.snapshot) AS text) AS bigint) AS next
    FROM (SELECT pg_current_snapshot()) AS s (snapshot)
), ahead AS MATERIALIZED (
    SELECT k.place, k.queue, c.*, CAST(SUM(c.size) OVER line AS bigint) - c.size AS before
    FROM kinds AS k, LATERAL (
        SELECT r.ctid AS at, r.type, r.priority, r.rank, r.seq, r.jobs AS size, {{is_long}} AS is_long, r.key,
               r.tells AND NOT CAST(:may_tell AS boolean) AS tells, {{waits}} AS can_wait
        FROM euterpe_line AS r
        WHERE r.queue = k.queue AND r.type = k.type AND {{takeable}} AND ({{is_long}} OR NOT {{is_held}})
        ORDER BY r.priority, r.rank, r.seq
        LIMIT (SELECT total FROM wanted)
    ) AS c
    WINDOW line AS (ORDER BY k.place, c.priority, c.rank, c.seq)
), stops AS MATERIALIZED (
    SELECT MIN(a.before) FILTER (WHERE a.tells) AS tells,
           MIN(a.before) FILTER (WHERE NOT a.can_wait AND a.before + a.size > w.now) AS cannot_wait
    FROM ahead AS a, wanted AS w
), front AS MATERIALIZED (
    SELECT a.*
    FROM ahead AS a, stops AS s, wanted AS w
    WHERE a.before < w.total AND (a.before >= s.tells) IS NOT TRUE
      AND (a.before >= s.cannot_wait AND (a.before > s.cannot_wait OR a.before >= w.now)) IS NOT TRUE
), long_shares AS MATERIALIZED (
    SELECT s.*, l.priority, l.rank, l.seq
    FROM (SELECT f.place, f.queue, f.type, COUNT(*) AS runs, MAX(f.before) AS last FROM front AS f WHERE f.is_long GROUP BY f.place, f.queue, f.type) AS s
    JOIN front AS l ON l.before = s.last
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
    FROM (SELECT f.place, CAST(NULL AS tid) AS at, f.queue, f.type, f.priority, f.rank, f.seq, f.size, f.key, f.can_wait, f.before
          FROM front AS f WHERE f.is_long
          UNION ALL
          SELECT h.*, NULL FROM held_long AS h) AS x
    WINDOW run AS (PARTITION BY x.place, x.type, x.priority, x.rank, x.seq)
), bound AS MATERIALIZED (
    SELECT MIN(l.before) AS before FROM long AS l WHERE l.times = 1
), free_keys AS MATERIALIZED (
    -- A job whose concurrency key somebody holds is passed over: a claim waits for no key.
    SELECT k.name FROM euterpe_keys AS k WHERE k.name = ANY (ARRAY(SELECT f.key FROM front AS f WHERE f.key IS NOT NULL))
    FOR NO KEY UPDATE SKIP LOCKED
), held_single AS MATERIALIZED (
    -- Then the single jobs that the look saw. Those that others have come to hold are being taken, and are passed over. Whatever single job is held here is
    -- taken: else others would pass it over in vain, and take what is behind it.
    SELECT f.place, {{held_columns}}
    FROM front AS f JOIN euterpe_line AS r ON r.ctid = f.at
    WHERE NOT f.is_long AND (f.before >= (SELECT b.before FROM bound AS b)) IS NOT TRUE
      AND (f.key IS NULL OR f.key = ANY (ARRAY(SELECT k.name FROM free_keys AS k)))
    FOR UPDATE OF r SKIP LOCKED
), held AS MATERIALIZED (
    SELECT h.* FROM held_single AS h
    UNION ALL
    SELECT l.place, l.at, l.queue, l.type, l.priority, l.rank, l.seq, l.size, l.key, l.can_wait
    FROM long AS l, bound AS b WHERE l.at IS NOT NULL AND l.times > 1 AND (l.seen >= b.before) IS NOT TRUE
)
