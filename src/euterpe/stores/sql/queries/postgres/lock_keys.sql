-- Claims and settlements of one concurrency key take turns, else a park and an unpark could miss each other.
SELECT key, pg_advisory_xact_lock(hashtextextended(key, 20261115))
FROM (SELECT DISTINCT key FROM unnest(CAST(:keys AS text[])) AS k (key) ORDER BY key) AS keys
