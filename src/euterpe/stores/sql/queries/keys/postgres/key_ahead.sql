-- Who waits in the own lines of the keys in `looking`, in order, as far as there may be places; `places`: how many of its key may be in the line once
-- it is.
ahead AS MATERIALIZED (
    SELECT a.*, LEAST(a.least, MIN(a.most) OVER line) - a.running AS places, row_number() OVER line AS place
    FROM (SELECT k.name, k.running, k.in_line, k.least, k.tokens, k.next_at, w.queue, w.type,
                 COALESCE(w.queue || chr(31) || w.type = ANY (k.passed), false) AS is_passed, l.*
          FROM looking AS k, LATERAL {{key_kinds}} AS w, LATERAL (
              SELECT l.priority, l.seq, l.since, l.expires_at, l.most, l.can_wait, l.tells FROM euterpe_key_line AS l
              WHERE l.key = k.name AND l.queue = w.queue AND l.type = w.type
              ORDER BY l.priority, l.seq
              LIMIT LEAST(1000, GREATEST(0, COALESCE(LEAST(w.most - k.running, k.tokens), 1000) - CASE WHEN k.look > 0 THEN 0 ELSE k.in_line END))
                    + CASE WHEN k.tokens IS NULL THEN 0 ELSE 1 END
          ) AS l) AS a
    WINDOW line AS (PARTITION BY a.name ORDER BY a.is_passed, a.priority, a.seq)
)
