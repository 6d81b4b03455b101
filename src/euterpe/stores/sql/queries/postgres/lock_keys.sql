-- Claims and settlements of one concurrency key take turns, else a park and an unpark could miss each other.
-- The table's own number is in the lock: installations in other schemas of this database have the same keys.
SELECT key, pg_advisory_xact_lock({{key_lock}})
FROM (SELECT DISTINCT key FROM unnest(CAST(:keys AS text[])) AS k (key) ORDER BY key) AS keys
