-- takes: name
-- returns: name
-- locks: waits
-- A cron that no code declares any more.
DELETE FROM euterpe_crons WHERE name = :name RETURNING name
