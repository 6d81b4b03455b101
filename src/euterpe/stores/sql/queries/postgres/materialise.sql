-- Write the claims of these jobs, which are held, from their receipts onto their rows. A statement of its own: its snapshot
-- is younger than the claim that took them out of their chunks.
UPDATE inbox_jobs AS j SET {{claimed_then}}
FROM euterpe_claims AS c
WHERE j.id {{in ids uuid}} AND j.chunk IS NOT NULL AND j.state || '' = 'scheduled' AND c.ranges @> j.seq
