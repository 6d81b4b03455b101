-- takes: rows of id, replayed_as
-- returns: nothing
-- locks: waits
-- Ended jobs run again as others. They leave their group of failures: nobody need act on them any more. Neither their
-- states nor anything that tells of them changes.
UPDATE inbox_jobs AS j SET replayed_as = m.replayed_as, fingerprint = NULL, failed_at = NULL
FROM unnest(CAST(:id AS uuid[]), CAST(:replayed_as AS uuid[])) AS m (id, replayed_as)
WHERE j.id = m.id AND j.completed_at IS NOT NULL
