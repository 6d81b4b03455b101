head AS MATERIALIZED (
    SELECT r.chunk, r.priority, r.ranges, r.lease_us, r.expires_at,
           r.type {{in prefetch_types text}} AS can_wait
    FROM euterpe_ready AS r
    WHERE {{ready}} AND (SELECT total > 0 FROM wanted)
    ORDER BY r.priority, r.lo
    LIMIT (SELECT COUNT(*) FROM (SELECT SUM(f.jobs) OVER (ORDER BY f.priority, f.lo) - f.jobs AS ahead,
                                        MIN(f.lo) OVER same AS first, f.lo,
                                        SUM(f.jobs) OVER (ORDER BY f.priority) - SUM(f.jobs) OVER same AS ahead_of_all
                                 FROM (SELECT r.jobs, r.priority, r.lo FROM euterpe_ready AS r
                                       WHERE {{ready}}
                                       ORDER BY r.priority, r.lo LIMIT 8 + (SELECT total FROM wanted) / 16) AS f
                                 WINDOW same AS (PARTITION BY f.priority)) AS n, wanted
           WHERE n.ahead < wanted.total OR (n.lo < n.first + wanted.total AND n.ahead_of_all < wanted.total))
    FOR UPDATE OF r SKIP LOCKED
), behind AS MATERIALIZED (
    SELECT r.priority, r.lo
    FROM euterpe_ready AS r
    WHERE {{ready}} AND (r.priority, r.lo) > (SELECT s.priority, s.lo FROM head AS h JOIN euterpe_ready AS s ON s.chunk = h.chunk
                                          ORDER BY s.priority DESC, s.lo DESC LIMIT 1)
    ORDER BY r.priority, r.lo LIMIT 1
), numbers AS MATERIALIZED (
    SELECT h.chunk, h.priority, s.seq, h.can_wait
    FROM head AS h, LATERAL (
        SELECT g.seq FROM unnest(h.ranges) AS x,
            generate_series(lower(x), LEAST(upper(x), lower(x) + (SELECT total FROM wanted)) - 1) AS g (seq)
        ORDER BY g.seq LIMIT (SELECT total FROM wanted)) AS s
), bound AS MATERIALIZED (
    SELECT b.priority, b.seq
    FROM ((SELECT n.priority, n.seq FROM numbers AS n ORDER BY n.priority, n.seq
           LIMIT 1 OFFSET (SELECT GREATEST(total - 1, 0) FROM wanted))
          UNION ALL SELECT priority, lo FROM behind
          UNION ALL SELECT CAST(32767 AS smallint), CAST(9223372036854775807 AS bigint)) AS b
    ORDER BY b.priority, b.seq LIMIT 1
), picked AS MATERIALIZED (
    SELECT w.ctid AS at, {{plain}} AS plain, w.priority, w.seq,
           {{prefetchable}} AS can_wait
    FROM inbox_jobs AS w
    WHERE {{claimable}}
      AND (CAST(:types AS text[]) IS NULL OR type = ANY (CAST(:types AS text[])))
      AND (w.priority, w.seq) < ((SELECT b.priority FROM bound AS b), (SELECT b.seq FROM bound AS b))
    ORDER BY priority, seq
    LIMIT (SELECT total FROM wanted)
    FOR UPDATE OF w SKIP LOCKED
), placed AS MATERIALIZED (
    SELECT m.*, row_number() OVER (ORDER BY m.priority, m.seq) AS place
    FROM (SELECT at, CAST(NULL AS uuid) AS chunk, plain, can_wait, priority, seq FROM picked
          UNION ALL
          SELECT NULL, n.chunk, true, n.can_wait, n.priority, n.seq FROM numbers AS n, bound AS b
          WHERE (n.priority, n.seq) <= (b.priority, b.seq)) AS m
    ORDER BY m.priority, m.seq LIMIT (SELECT total FROM wanted)
), line AS MATERIALIZED (
    SELECT bool_and(plain) AS plain, MIN(place) FILTER (WHERE place > :limit AND NOT can_wait) AS ends_before
    FROM placed
), front AS MATERIALIZED (
    SELECT p.at, p.chunk, p.seq, p.priority FROM placed AS p, line
    WHERE (line.plain OR CAST(:any AS boolean)) AND (p.place >= line.ends_before) IS NOT TRUE
)
