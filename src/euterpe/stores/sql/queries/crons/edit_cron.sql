-- takes: expression, tz, name
-- returns: name
-- locks: waits
-- Another time for a cron, until the code says something else.
UPDATE euterpe_crons SET expression = :expression, tz = :tz WHERE name = :name RETURNING name
