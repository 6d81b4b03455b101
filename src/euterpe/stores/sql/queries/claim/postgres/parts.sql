-- How many are taken of each run that is held, and the runs without them.
parts AS MATERIALIZED (
    SELECT s.*, CAST(LEAST(s.size, CASE WHEN s.can_wait THEN w.total ELSE w.now END - s.before) AS integer) AS take
    FROM wanted AS w, (
        SELECT h.*, CAST(SUM(h.size) OVER line AS bigint) - h.size AS before
        FROM held AS h
        WINDOW line AS (ORDER BY h.place, h.priority, h.rank, h.seq)
    ) AS s
), numbers AS MATERIALIZED (
    SELECT g.seq, p.priority, p.before + (g.seq - p.seq) + 1 AS place
    FROM parts AS p, generate_series(p.seq, p.seq + p.take - 1) AS g (seq) WHERE p.take > 0
    ORDER BY g.seq
), gone AS (
    DELETE FROM euterpe_line AS r USING parts AS p WHERE r.ctid = p.at AND p.take = p.size
), shortened AS (
    UPDATE euterpe_line AS r SET seq = r.seq + p.take, jobs = r.jobs - p.take, was_longer = true
    FROM parts AS p
    WHERE r.ctid = p.at AND p.take > 0 AND p.take < p.size
)
