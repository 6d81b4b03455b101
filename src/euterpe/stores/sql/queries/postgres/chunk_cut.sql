cut AS MATERIALIZED (
    SELECT f.chunk, f.n, h.lease_us, h.expires_at, h.ranges * int8multirange(int8range(NULL, f.last, '[]')) AS taken,
           h.ranges * int8multirange(int8range(f.last, NULL, '()')) AS rest
    FROM (SELECT chunk, COUNT(*) AS n, MAX(seq) AS last FROM front WHERE chunk IS NOT NULL GROUP BY chunk) AS f
    JOIN head AS h ON h.chunk = f.chunk
), gone AS (
    DELETE FROM euterpe_ready AS r USING cut WHERE r.chunk = cut.chunk AND isempty(cut.rest)
    RETURNING r.chunk, cut.taken, cut.lease_us, cut.expires_at
), shortened AS (
    UPDATE euterpe_ready AS r SET ranges = cut.rest, lo = lower(cut.rest), jobs = r.jobs - cut.n
    FROM cut WHERE r.chunk = cut.chunk AND NOT isempty(cut.rest)
    RETURNING r.chunk, cut.taken, cut.lease_us, cut.expires_at
), piece AS MATERIALIZED (
    SELECT * FROM gone UNION ALL SELECT * FROM shortened
)
