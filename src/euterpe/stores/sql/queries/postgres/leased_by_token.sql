{{claimed}},
        lease_expires_at = {{now}} + LEAST(:lease_ttl_us, j.visibility_us, j.execution_timeout_us),
        worker_id = COALESCE((CAST(:worker_ids AS text[]))[placed.place], :worker_id),
        lease_token_hash = sha256(convert_to(encode(
            sha256(CAST(:secret AS bytea) || uuid_send(j.id) || int8send(j.claim_version + 1)), 'hex'), 'UTF8'))
