-- The keys that nobody else has locked just now. Who holds some keys must not wait for others.
SELECT key FROM (SELECT DISTINCT key FROM unnest(CAST(:keys AS text[])) AS k (key)) AS keys
WHERE pg_try_advisory_xact_lock({{key_lock}})
