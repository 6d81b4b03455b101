-- How many jobs of each limit key run now, this transaction's own claims included.
SELECT {{limit_key}}, COUNT(*)
FROM inbox_jobs AS j
WHERE {{limit_key}} {{in keys text}} AND j.concurrency_key IS NOT NULL AND j.state = 'running'
GROUP BY {{limit_key}}
