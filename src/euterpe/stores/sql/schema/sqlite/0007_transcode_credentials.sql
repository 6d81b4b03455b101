-- What opens the places of a transcode, sealed; and where those places are, which is no secret.
-- The four columns of the seal are NULL once the job has ended.
CREATE TABLE euterpe_transcode_credentials (
    job_id                           TEXT NOT NULL PRIMARY KEY,
    requester_id                     TEXT NOT NULL,
    credential_version               INTEGER NOT NULL,
    locations                        TEXT NOT NULL,
    source_bucket                    TEXT,
    source_key                       TEXT,
    destination_bucket               TEXT,
    destination_prefix               TEXT,
    refresh_url                      TEXT,
    refresh_id                       TEXT,
    refresh_attempts                 INTEGER NOT NULL DEFAULT 0,
    decrypt_failures                 INTEGER NOT NULL DEFAULT 0,
    expires_at                       INTEGER,
    created_at                       INTEGER NOT NULL,
    updated_at                       INTEGER NOT NULL,
    storage_creds_encrypted          BLOB,
    storage_creds_dek_wrapped        BLOB,
    storage_creds_kek_id             TEXT,
    storage_creds_encryption_version INTEGER,
    CONSTRAINT sealed_whole_or_not_at_all CHECK (
        (storage_creds_encrypted IS NULL) = (storage_creds_dek_wrapped IS NULL)
        AND (storage_creds_encrypted IS NULL) = (storage_creds_kek_id IS NULL)
        AND (storage_creds_encrypted IS NULL) = (storage_creds_encryption_version IS NULL)
    )
) STRICT;
CREATE INDEX euterpe_transcode_credentials_held ON euterpe_transcode_credentials (job_id)
    WHERE storage_creds_encrypted IS NOT NULL;

-- Multipart uploads that were begun and neither completed nor aborted.
CREATE TABLE euterpe_transcode_uploads (
    job_id        TEXT NOT NULL,
    object_key    TEXT NOT NULL,
    upload_id     TEXT NOT NULL,
    claim_version INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (job_id, object_key, upload_id)
) STRICT, WITHOUT ROWID;
