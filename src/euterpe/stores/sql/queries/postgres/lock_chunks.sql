-- The chunks of these jobs, held in their order. A claim that has one is waited for.
SELECT r.chunk FROM euterpe_ready AS r
WHERE r.chunk IN (SELECT j.chunk FROM inbox_jobs AS j WHERE j.id {{in ids uuid}} AND j.chunk IS NOT NULL)
ORDER BY r.chunk FOR UPDATE
