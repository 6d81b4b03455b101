-- Which of these jobs wait in a chunk or run under a receipt. What is not plain never becomes so: no lock is needed.
SELECT CAST(j.id AS text) FROM inbox_jobs AS j
WHERE j.id {{in ids uuid}} AND j.chunk IS NOT NULL AND j.state || '' = 'scheduled'
