-- takes: fingerprint, seq
-- returns: id, type, error
-- locks: none
-- What the newest failure of a group says.
SELECT CAST(j.id AS TEXT), j.type, j.error FROM inbox_jobs AS j {{by inbox_jobs_failures}}
WHERE j.fingerprint = :fingerprint AND j.seq = :seq
