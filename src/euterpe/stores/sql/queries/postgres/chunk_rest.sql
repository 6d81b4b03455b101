missing AS MATERIALIZED (
    SELECT m.seq FROM (SELECT seq FROM front WHERE chunk IS NOT NULL EXCEPT SELECT seq FROM taken) AS m
    WHERE NOT EXISTS (SELECT 1 FROM inbox_jobs AS w WHERE w.indexed_state = 'completed' AND w.seq = m.seq
                      AND w.chunk IS NOT NULL AND w.state || '' = 'scheduled')
), rest AS MATERIALIZED (
    SELECT h.chunk, h.ranges - t.ranges AS ranges
    FROM head AS h, (SELECT range_agg(int8range(seq, seq + 1)) AS ranges
                     FROM (SELECT seq FROM taken UNION ALL SELECT seq FROM missing) AS o) AS t
    WHERE h.ranges && t.ranges
), gone AS (
    DELETE FROM euterpe_ready AS r USING rest WHERE r.chunk = rest.chunk AND isempty(rest.ranges) RETURNING r.chunk
), shortened AS (
    UPDATE euterpe_ready AS r SET ranges = rest.ranges, lo = lower(rest.ranges),
        jobs = (SELECT SUM(upper(x) - lower(x)) FROM unnest(rest.ranges) AS x)
    FROM rest WHERE r.chunk = rest.chunk AND NOT isempty(rest.ranges)
)
