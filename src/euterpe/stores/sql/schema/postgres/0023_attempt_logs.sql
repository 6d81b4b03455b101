-- What a handler logged during an attempt, written when the attempt is settled and removed with the job.
CREATE TABLE euterpe_attempt_logs (
    job_id        uuid   NOT NULL,
    claim_version bigint NOT NULL,
    log           text   NOT NULL,
    PRIMARY KEY (job_id, claim_version)
);

-- Jobs that an operation replayed although they did not match: they had ended because of one that did.
ALTER TABLE euterpe_operations ADD COLUMN dependents bigint NOT NULL DEFAULT 0;
