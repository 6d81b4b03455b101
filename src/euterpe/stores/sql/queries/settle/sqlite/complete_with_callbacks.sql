-- takes: result, at, seqs, ids, claim_version, callback_url, tags, correlation_id, transitions
-- returns: nothing
-- locks: waits
-- `complete_uniform` for jobs whose end is told to a callback: those of which the row says no more than the claim that the worker holds. So their events can
-- be made of their claims. Whoever changes what an event tells of a running job, changes one of these columns.
UPDATE inbox_jobs AS j
SET state = 'completed', result = :result, error = NULL, completed_at = :at, lease_expires_at = NULL,
    updated_at = :at, transitions = j.transitions + 1
WHERE j.seq IN (SELECT value FROM json_each(:seqs)) AND +j.id IN (SELECT value FROM json_each(:ids))
  AND j.claim_version = :claim_version AND j.lease_expires_at IS NOT NULL AND NOT j.has_dependents
  AND j.callback_url = :callback_url AND j.tags IS :tags AND j.correlation_id IS :correlation_id
  AND j.heartbeat_at = j.started_at AND j.progress IS NULL AND j.progress_message IS NULL AND j.transitions = :transitions
