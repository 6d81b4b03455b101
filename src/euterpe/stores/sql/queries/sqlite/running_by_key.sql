-- As the shared text, for all of the keys, in one value. `completed_at` is asked for in the words of the index.
SELECT {{packed key_count_columns}}
FROM (
    SELECT n.value AS name,
           (SELECT COUNT(*) FROM inbox_jobs AS j
            WHERE {{limit_key}} = n.value AND j.concurrency_key IS NOT NULL AND {{key_state}} = 'running') AS running,
           EXISTS (SELECT 1 FROM euterpe_key_rates AS r WHERE r.name = n.value) AS has_rate
    FROM json_each(:keys) AS n
) AS k
