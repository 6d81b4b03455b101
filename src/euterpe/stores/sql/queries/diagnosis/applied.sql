-- Which migrations were applied.
SELECT m.version FROM euterpe_migrations AS m ORDER BY m.version
