-- Which of these jobs wait in a chunk or run under a receipt (true), and which had their first claim written onto their rows
-- (false), perhaps a moment ago. What is not plain never becomes so: no lock is needed.
SELECT CAST(j.id AS text), j.chunk IS NOT NULL FROM inbox_jobs AS j
WHERE j.id {{in ids uuid}} AND (CASE WHEN j.chunk IS NOT NULL THEN j.state || '' = 'scheduled'
                                ELSE j.claim_version = 1 AND j.lease_expires_at IS NOT NULL END)
