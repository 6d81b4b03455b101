-- takes: payload, payload_format, delay_us, id, claim_version
-- returns: nothing
-- locks: waits
-- New arguments for a job that waits and is held. With :delay_us its time begins anew, if it has not come yet. No state
-- changes, so neither updated_at nor the count of transitions does.
UPDATE inbox_jobs AS j
SET payload = :payload, payload_format = :payload_format,
    run_at = CASE WHEN CAST(:delay_us AS bigint) IS NOT NULL AND j.state IN ('delayed', 'pending')
                  THEN {{now}} + CAST(:delay_us AS bigint) ELSE j.run_at END
WHERE j.id = :id AND j.claim_version = :claim_version AND j.lease_expires_at IS NULL AND j.completed_at IS NULL
