-- takes: nothing
-- returns: version, name
-- locks: none
-- Which migrations were applied.
SELECT m.version, m.name FROM euterpe_migrations AS m ORDER BY m.version
