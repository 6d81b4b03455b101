-- takes: seqs
-- returns: nothing
-- locks: waits
-- These jobs wait for nothing more: `resolve_dependent` for those of whose release nobody is told. They were looked up in this transaction, so their
-- numbers are theirs. The guard is not the state: see pending_means_waiting in the schema.
UPDATE inbox_jobs AS j
SET pending_dependencies = 0,
    state = CASE WHEN j.run_at > :now THEN 'delayed' ELSE 'scheduled' END,
    scheduled_at = CASE WHEN j.run_at > :now THEN j.scheduled_at ELSE :now END,
    updated_at = :now, transitions = j.transitions + 1
WHERE j.seq IN (SELECT value FROM json_each(:seqs)) AND j.pending_dependencies > 0
