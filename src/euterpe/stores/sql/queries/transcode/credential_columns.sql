c.job_id, c.requester_id, c.credential_version, c.locations, c.refresh_url, c.refresh_id, c.refresh_attempts,
    c.decrypt_failures, c.expires_at, c.updated_at, c.storage_creds_encrypted, c.storage_creds_dek_wrapped,
    c.storage_creds_kek_id, c.storage_creds_encryption_version
