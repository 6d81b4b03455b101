-- takes: name
-- returns: name
-- locks: waits
-- What is paused submits nothing.
UPDATE euterpe_crons SET paused = TRUE WHERE name = :name RETURNING name
