-- takes: each id, claim_version, log
-- returns: nothing
-- locks: waits
-- What handlers logged during their attempts. A settle that is confirmed writes it once.
INSERT INTO euterpe_attempt_logs (job_id, claim_version, log)
VALUES (:id, :claim_version, :log) ON CONFLICT DO NOTHING
