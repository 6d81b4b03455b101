-- The full path claims by the claim index: the front of the line goes there first. A row that somebody holds stays.
WITH head AS MATERIALIZED (
    SELECT r.chunk, r.ranges, r.priority, r.lo FROM euterpe_ready AS r
    WHERE r.queue = :queue AND (CAST(:types AS text[]) IS NULL OR r.type = ANY (CAST(:types AS text[])))
      AND r.type NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'type')
    ORDER BY r.priority, r.lo LIMIT :limit FOR UPDATE OF r SKIP LOCKED
), front AS MATERIALIZED (
    SELECT h.chunk, s.seq FROM head AS h, unnest(h.ranges) AS x, generate_series(lower(x), upper(x) - 1) AS s (seq)
    ORDER BY h.priority, s.seq LIMIT :limit
), free AS MATERIALIZED (
    SELECT w.id, w.seq, w.chunk FROM front, inbox_jobs AS w
    WHERE w.state = 'scheduled' AND w.seq = front.seq AND w.chunk IS NOT NULL FOR NO KEY UPDATE OF w SKIP LOCKED
), rest AS MATERIALIZED (
    SELECT h.chunk, h.ranges - o.ranges AS ranges, o.n
    FROM (SELECT chunk, range_agg(int8range(seq, seq + 1)) AS ranges, COUNT(*) AS n FROM free GROUP BY chunk) AS o
    JOIN head AS h ON h.chunk = o.chunk
), gone AS (
    DELETE FROM euterpe_ready AS r USING rest WHERE r.chunk = rest.chunk AND isempty(rest.ranges)
), shortened AS (
    UPDATE euterpe_ready AS r SET ranges = rest.ranges, lo = lower(rest.ranges), jobs = r.jobs - rest.n
    FROM rest WHERE r.chunk = rest.chunk AND NOT isempty(rest.ranges)
), written AS (
    UPDATE inbox_jobs AS j SET chunk = NULL, parked = false FROM free WHERE j.id = free.id
)
SELECT COUNT(*) FROM free
