taken_keys AS MATERIALIZED (
    -- A run of a key is one job. `parts` has locked the keys; nobody changes a rate without its key.
    SELECT array_agg(s.key) AS names, array_agg(s.taken) AS taken, array_agg(s.gone) AS gone
    FROM (SELECT p.key, COUNT(t.seq) AS taken, COUNT(*) AS gone
          FROM parts AS p LEFT JOIN taken AS t ON t.seq = p.seq
          WHERE p.key IS NOT NULL AND p.take > 0 GROUP BY p.key) AS s
), keys AS (
    UPDATE euterpe_keys AS k SET running = k.running + x.taken, in_line = k.in_line - x.gone
    FROM (SELECT u.* FROM taken_keys AS a, unnest(a.names, a.taken, a.gone) AS u (name, taken, gone)) AS x
    WHERE k.name = x.name
), tokens AS (
    UPDATE euterpe_key_rates AS r SET full_at = GREATEST(r.full_at, {{now}}) + x.taken * r.interval_us
    FROM (SELECT u.* FROM taken_keys AS a, unnest(a.names, a.taken) AS u (name, taken)) AS x
    WHERE r.name = x.name
)
