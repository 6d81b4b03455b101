-- takes: rows of name, id
-- returns: nothing
-- locks: waits
-- These jobs of keys, which are held, are not scheduled any more, or at another priority: they leave the key's own line. What of the keys is in the
-- line, and the smallest limit among it, is counted again, without what is not ready there: another transaction may have let a job in while
-- it was ended. In the line is at most as much as may run at once. A run that a claim holds is waited for: a claim waits for no key.
WITH input AS MATERIALIZED (
    SELECT i.name, i.id FROM unnest(CAST(:name AS text[]), CAST(:id AS uuid[])) AS i (name, id)
), no_longer_waiting AS (
    DELETE FROM euterpe_key_line AS l
    USING input AS i, inbox_jobs AS j, generate_series(0, 4) AS p (priority)
    WHERE j.id = i.id AND l.key = i.name AND l.queue = j.queue AND l.type = j.type AND l.priority = p.priority AND l.seq = j.seq
      AND NOT (j.state = 'scheduled' AND l.priority = j.priority)
), inside AS MATERIALIZED (
    SELECT r.key, r.ctid AS at, j.concurrency_limit, j.state = 'scheduled' AND j.priority = r.priority AS is_ready
    FROM (SELECT DISTINCT i.name FROM input AS i) AS i JOIN euterpe_line AS r ON r.key = i.name JOIN inbox_jobs AS j ON j.seq = r.seq
), strays AS MATERIALIZED (
    SELECT r.ctid AS at FROM euterpe_line AS r
    WHERE r.ctid = ANY (ARRAY(SELECT i.at FROM inside AS i WHERE NOT i.is_ready))
    FOR UPDATE OF r
), gone AS (
    DELETE FROM euterpe_line AS r USING strays AS s WHERE r.ctid = s.at
)
UPDATE euterpe_keys AS k SET in_line = c.jobs, least = c.least
FROM (SELECT DISTINCT i.name FROM input AS i) AS i, LATERAL (
    SELECT COUNT(*) AS jobs, MIN(n.concurrency_limit) AS least
    FROM inside AS n WHERE n.key = i.name AND n.at NOT IN (SELECT s.at FROM strays AS s)
) AS c
WHERE k.name = i.name AND (k.in_line <> c.jobs OR k.least IS DISTINCT FROM c.least)
