-- Take these jobs out of their chunks; both are held. They wait in the claim index from now on.
WITH waiting AS MATERIALIZED (
    SELECT j.id, j.seq, j.chunk FROM inbox_jobs AS j JOIN euterpe_ready AS r ON r.chunk = j.chunk AND r.ranges @> j.seq
    WHERE j.id {{in ids uuid}} AND j.state || '' = 'scheduled'
), rest AS MATERIALIZED (
    SELECT r.chunk, r.ranges - o.ranges AS ranges, o.n
    FROM (SELECT chunk, range_agg(int8range(seq, seq + 1)) AS ranges, COUNT(*) AS n FROM waiting GROUP BY chunk) AS o
    JOIN euterpe_ready AS r ON r.chunk = o.chunk
), gone AS (
    DELETE FROM euterpe_ready AS r USING rest WHERE r.chunk = rest.chunk AND isempty(rest.ranges)
), shortened AS (
    UPDATE euterpe_ready AS r SET ranges = rest.ranges, lo = lower(rest.ranges), jobs = r.jobs - rest.n
    FROM rest WHERE r.chunk = rest.chunk AND NOT isempty(rest.ranges)
)
UPDATE inbox_jobs AS j SET chunk = NULL, parked = false FROM waiting WHERE j.id = waiting.id
