-- takes: each stage, stage_ordinal, progress, progress_message, checkpoint, waited_us, id, claim_version
-- returns: job_columns
-- locks: waits
-- Stage, progress and checkpoint of a running job; what is NULL stays as it is. Stages never move back. The time that the attempt waited
-- inside its worker is no part of its execution timeout, which counts from started_at.
UPDATE inbox_jobs AS j
SET stage = COALESCE(:stage, j.stage), stage_ordinal = COALESCE(:stage_ordinal, j.stage_ordinal),
    progress = COALESCE(:progress, j.progress),
    progress_message = COALESCE(:progress_message, j.progress_message),
    checkpoint = COALESCE(:checkpoint, j.checkpoint), started_at = j.started_at + :waited_us,
    updated_at = CASE WHEN :stage IS NULL OR :stage = j.stage THEN j.updated_at ELSE {{now}} END,
    transitions = j.transitions + CASE WHEN :stage IS NULL OR :stage = j.stage THEN 0 ELSE 1 END
WHERE j.id = :id AND j.claim_version = :claim_version AND j.lease_expires_at IS NOT NULL
  AND (:stage_ordinal IS NULL OR j.stage_ordinal <= :stage_ordinal)
RETURNING {{job_columns}}
