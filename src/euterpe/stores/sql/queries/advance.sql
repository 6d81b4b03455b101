-- Stage, progress and checkpoint of a running job; what is NULL stays as it is. Stages never move back.
UPDATE inbox_jobs AS j
SET stage = COALESCE(:stage, j.stage), stage_ordinal = COALESCE(:stage_ordinal, j.stage_ordinal),
    progress = COALESCE(:progress, j.progress),
    progress_message = COALESCE(:progress_message, j.progress_message),
    checkpoint = COALESCE(:checkpoint, j.checkpoint),
    updated_at = CASE WHEN :stage IS NULL OR :stage = j.stage THEN j.updated_at ELSE {{now}} END,
    transitions = j.transitions + CASE WHEN :stage IS NULL OR :stage = j.stage THEN 0 ELSE 1 END
WHERE j.id = :id AND j.claim_version = :claim_version AND j.lease_expires_at IS NOT NULL
  AND (:stage_ordinal IS NULL OR j.stage_ordinal <= :stage_ordinal)
RETURNING {{job_columns}}
