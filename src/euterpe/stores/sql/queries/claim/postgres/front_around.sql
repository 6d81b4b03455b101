-- The front of the line, past everything that somebody holds, be it a run, the row of a job or a key. Longer runs are not looked at: `scatter` has made
-- single ones of them. More is held than is taken where there are several kinds; others get it in a moment.
stops AS MATERIALIZED (SELECT CAST(NULL AS bigint) AS tells, CAST(NULL AS bigint) AS cannot_wait), bound AS MATERIALIZED (
    SELECT CAST(NULL AS bigint) AS before
), front AS MATERIALIZED (SELECT 1 WHERE false), around AS MATERIALIZED (
    SELECT k.place, r.*
    FROM kinds AS k, LATERAL (
        SELECT {{held_columns}}
        FROM euterpe_line AS r JOIN inbox_jobs AS j ON j.seq = r.seq
        WHERE r.queue = k.queue AND r.type = k.type AND r.jobs = 1 AND {{takeable}}
        ORDER BY r.priority, r.rank, r.seq
        LIMIT (SELECT total FROM wanted)
        FOR UPDATE OF r, j SKIP LOCKED
    ) AS r
), free_keys AS MATERIALIZED (
    SELECT k.name FROM euterpe_keys AS k WHERE k.name = ANY (ARRAY(SELECT h.key FROM around AS h WHERE h.key IS NOT NULL))
    FOR NO KEY UPDATE SKIP LOCKED
), held AS MATERIALIZED (
    SELECT h.* FROM around AS h WHERE h.key IS NULL OR h.key IN (SELECT k.name FROM free_keys AS k)
)
