-- takes: rows of id, claim_version, stage, stage_ordinal, progress, progress_message, checkpoint, waited_us
-- returns: job_columns
-- locks: waits
-- Stage, progress and checkpoint of a running job; what is NULL stays as it is. Stages never move back. The time that the attempt waited
-- inside its worker is no part of its execution timeout, which counts from started_at.
UPDATE inbox_jobs AS j
SET stage = COALESCE(i.stage, j.stage), stage_ordinal = COALESCE(i.stage_ordinal, j.stage_ordinal),
    progress = COALESCE(i.progress, j.progress),
    progress_message = COALESCE(i.progress_message, j.progress_message),
    checkpoint = COALESCE(i.checkpoint, j.checkpoint), started_at = j.started_at + i.waited_us,
    updated_at = CASE WHEN i.stage IS NULL OR i.stage = j.stage THEN j.updated_at ELSE {{now}} END,
    transitions = j.transitions + CASE WHEN i.stage IS NULL OR i.stage = j.stage THEN 0 ELSE 1 END
FROM unnest(CAST(:id AS uuid[]), CAST(:claim_version AS bigint[]), CAST(:stage AS text[]),
            CAST(:stage_ordinal AS smallint[]), CAST(:progress AS double precision[]),
            CAST(:progress_message AS text[]), CAST(:checkpoint AS bytea[]), CAST(:waited_us AS bigint[]))
    AS i (id, claim_version, stage, stage_ordinal, progress, progress_message, checkpoint, waited_us)
WHERE j.id = i.id AND j.claim_version = i.claim_version AND j.lease_expires_at IS NOT NULL
  AND (i.stage_ordinal IS NULL OR j.stage_ordinal <= i.stage_ordinal)
RETURNING {{job_columns}}
