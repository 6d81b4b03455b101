-- takes: name, type, expression, tz, missed
-- returns: nothing
-- locks: waits
-- A cron as the code has it. What an operator changed stays, until the code itself says something else.
INSERT INTO euterpe_crons AS c (name, type, expression, tz, declared_expression, declared_tz, missed, seen_at)
VALUES (:name, :type, :expression, :tz, :expression, :tz, :missed, {{now}})
ON CONFLICT (name) DO UPDATE
SET expression = CASE WHEN c.declared_expression = excluded.declared_expression AND c.declared_tz = excluded.declared_tz
                      THEN c.expression ELSE excluded.expression END,
    tz = CASE WHEN c.declared_expression = excluded.declared_expression AND c.declared_tz = excluded.declared_tz
              THEN c.tz ELSE excluded.tz END,
    declared_expression = excluded.declared_expression, declared_tz = excluded.declared_tz,
    type = excluded.type, missed = excluded.missed, seen_at = excluded.seen_at
