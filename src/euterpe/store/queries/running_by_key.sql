-- How many jobs of each concurrency key run now, this transaction's own claims included.
SELECT concurrency_key, COUNT(*)
FROM inbox_jobs
WHERE concurrency_key {{in keys text}} AND state = 'running'
GROUP BY concurrency_key
