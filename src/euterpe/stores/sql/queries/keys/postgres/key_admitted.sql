-- Of `asked`, those with a place and a token enter the line; `in_line` is what of the key is there before.
admitted AS MATERIALIZED (
    SELECT a.* FROM asked AS a WHERE NOT a.lacks_place AND NOT a.lacks_token AND a.place <= 1000
), left_key_line AS (
    DELETE FROM euterpe_key_line AS l USING admitted AS a
    WHERE l.key = a.name AND l.queue = a.queue AND l.type = a.type AND l.priority = a.priority AND l.seq = a.seq
), line AS (
    INSERT INTO euterpe_line (queue, type, priority, seq, jobs, expires_at, since, can_wait, tells, key, admitted_at)
    SELECT a.queue, a.type, a.priority, a.seq, 1, a.expires_at, a.since, a.can_wait AND a.tokens IS NULL, a.tells, a.name, {{now}}
    FROM admitted AS a
), counted AS (
    UPDATE euterpe_keys AS k SET in_line = c.in_line, least = c.least, due_at = c.due_at
    FROM (SELECT a.name, MIN(a.in_line) + COUNT(a.seq) FILTER (WHERE NOT a.lacks_place AND NOT a.lacks_token AND a.place <= 1000) AS in_line,
                 LEAST(MIN(a.least), MIN(a.most) FILTER (WHERE NOT a.lacks_place AND NOT a.lacks_token)) AS least,
                 CASE WHEN bool_or(a.lacks_token AND NOT a.lacks_place) THEN MIN(a.next_at) END AS due_at
          FROM (SELECT a.name, a.in_line, a.least, a.next_at, a.seq, a.most, a.place, a.lacks_place, a.lacks_token FROM asked AS a
                UNION ALL
                SELECT g.name, g.in_line, g.least, g.next_at, NULL, NULL, NULL, NULL, NULL FROM given AS g) AS a
          GROUP BY a.name) AS c
    WHERE k.name = c.name AND (k.in_line, k.due_at) IS DISTINCT FROM (c.in_line, c.due_at)
)
