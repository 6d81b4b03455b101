-- takes: nothing
-- returns: name, type, expression, tz, declared_expression, declared_tz, missed, paused, last_tick, seen_at
-- locks: none
-- All crons that were ever declared here.
SELECT name, type, expression, tz, declared_expression, declared_tz, missed, paused, last_tick, seen_at
FROM euterpe_crons ORDER BY name
