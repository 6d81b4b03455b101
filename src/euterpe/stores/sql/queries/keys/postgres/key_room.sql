-- What these keys, which are held, have: places, tokens, and the kinds of jobs that wait. CTEs are never joined with each other: without hashes that
-- takes time by the square, so each row carries what is said of its key.
room AS MATERIALIZED (
    SELECT k.name, k.running, k.in_line, CASE WHEN k.in_line > 0 THEN k.least END AS least, k.due_at,
           CASE WHEN k.passed_until > {{now}} THEN k.passed END AS passed, t.tokens, t.next_at, i.look
    FROM unnest(CAST(:name AS text[]), CAST(:look AS integer[])) AS i (name, look) JOIN euterpe_keys AS k ON k.name = i.name
    LEFT JOIN LATERAL (
        SELECT b.tokens, CASE WHEN b.tokens < b.burst THEN b.full_at - (b.burst - b.tokens - 1) * b.interval_us
                              ELSE {{now}} + GREATEST(b.interval_us, 20000) END AS next_at
        FROM (SELECT r.burst, r.interval_us, r.full_at,
                     GREATEST(0, (r.burst * r.interval_us - GREATEST(0, r.full_at - {{now}})) / r.interval_us) AS tokens
              FROM euterpe_key_rates AS r WHERE r.name = k.name) AS b
    ) AS t ON true
)
