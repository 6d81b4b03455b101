-- takes: each replayed_as, id
-- returns: nothing
-- locks: waits
-- An ended job runs again as another one. It leaves its group of failures: nobody need act on it any more. Neither its
-- state nor anything that tells of it changes.
UPDATE inbox_jobs SET replayed_as = :replayed_as, fingerprint = NULL, failed_at = NULL
WHERE id = :id AND completed_at IS NOT NULL
