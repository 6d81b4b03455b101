-- What a handler logged during an attempt, written when the attempt is settled and removed with the job.
CREATE TABLE euterpe_attempt_logs (
    job_id        TEXT    NOT NULL,
    claim_version INTEGER NOT NULL,
    log           TEXT    NOT NULL,
    PRIMARY KEY (job_id, claim_version)
) STRICT, WITHOUT ROWID;

-- Jobs that an operation replayed although they did not match: they had ended because of one that did.
ALTER TABLE euterpe_operations ADD COLUMN dependents INTEGER NOT NULL DEFAULT 0;
