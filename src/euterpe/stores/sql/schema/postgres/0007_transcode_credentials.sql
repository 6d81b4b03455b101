-- What opens the places of a transcode, sealed; and where those places are, which is no secret.
-- The four columns of the seal are NULL once the job has ended.
CREATE TABLE euterpe_transcode_credentials (
    job_id                           uuid NOT NULL PRIMARY KEY,
    requester_id                     text NOT NULL,
    credential_version               integer NOT NULL,
    locations                        text NOT NULL,
    source_bucket                    text,
    source_key                       text,
    destination_bucket               text,
    destination_prefix               text,
    refresh_url                      text,
    refresh_id                       text,
    refresh_attempts                 integer NOT NULL DEFAULT 0,
    decrypt_failures                 integer NOT NULL DEFAULT 0,
    expires_at                       bigint,
    created_at                       bigint NOT NULL,
    updated_at                       bigint NOT NULL,
    storage_creds_encrypted          bytea,
    storage_creds_dek_wrapped        bytea,
    storage_creds_kek_id             text,
    storage_creds_encryption_version integer,
    CONSTRAINT sealed_whole_or_not_at_all CHECK (
        (storage_creds_encrypted IS NULL) = (storage_creds_dek_wrapped IS NULL)
        AND (storage_creds_encrypted IS NULL) = (storage_creds_kek_id IS NULL)
        AND (storage_creds_encrypted IS NULL) = (storage_creds_encryption_version IS NULL)
    )
);
CREATE INDEX euterpe_transcode_credentials_held ON euterpe_transcode_credentials (job_id)
    WHERE storage_creds_encrypted IS NOT NULL;

-- Multipart uploads that were begun and neither completed nor aborted.
CREATE TABLE euterpe_transcode_uploads (
    job_id        uuid NOT NULL,
    object_key    text NOT NULL,
    upload_id     text NOT NULL,
    claim_version integer NOT NULL,
    created_at    bigint NOT NULL,
    PRIMARY KEY (job_id, object_key, upload_id)
);
