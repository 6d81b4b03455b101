-- takes: rest_us, stale_us, names
-- returns: nothing
-- locks: waits
-- Kinds of these keys, which are held, that have kept places in the line for long without being taken, while jobs of other kinds wait: the
-- others go first for a while. Nobody may know their type, or its circuit may be open.
UPDATE euterpe_keys AS k
SET passed = s.kinds, passed_until = {{now}} + :rest_us
FROM (
    SELECT i.name, (
        SELECT array_agg(DISTINCT r.queue || chr(31) || r.type)
        FROM (SELECT r.queue, r.type, r.admitted_at FROM euterpe_line AS r WHERE r.key = i.name LIMIT 1000) AS r
        WHERE r.admitted_at <= {{now}} - :stale_us
    ) AS kinds
    FROM unnest(CAST(:names AS text[])) AS i (name)
) AS s
WHERE k.name = s.name AND s.kinds IS NOT NULL
  AND EXISTS (SELECT 1 FROM {{key_kinds}} AS w WHERE w.queue || chr(31) || w.type <> ALL (s.kinds))
