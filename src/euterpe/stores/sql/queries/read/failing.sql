-- takes: groups, counted, requester_id
-- returns: fingerprint, newest
-- locks: none
-- The fingerprints of failed jobs, each with the newest of its jobs. One step in the index for each fingerprint, and of a
-- group with many jobs no more than :counted are looked at.
WITH RECURSIVE g (fingerprint, n) AS (
    SELECT (SELECT MIN(j.fingerprint) FROM inbox_jobs AS j WHERE j.fingerprint IS NOT NULL), 1
    UNION ALL
    SELECT (SELECT MIN(j.fingerprint) FROM inbox_jobs AS j WHERE j.fingerprint IS NOT NULL AND j.fingerprint > g.fingerprint),
           g.n + 1
    FROM g WHERE g.fingerprint IS NOT NULL AND g.n < :groups
)
SELECT g.fingerprint,
       (SELECT MAX(f.seq) FROM (SELECT j.seq, j.requester_id FROM inbox_jobs AS j
                                WHERE j.fingerprint = g.fingerprint ORDER BY j.seq DESC LIMIT :counted) AS f
        WHERE CAST(:requester_id AS text) IS NULL OR f.requester_id = :requester_id)
FROM g WHERE g.fingerprint IS NOT NULL
