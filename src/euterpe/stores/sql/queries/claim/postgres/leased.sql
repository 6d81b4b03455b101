{{claimed}},
        lease_expires_at = {{now}} + LEAST(:lease_ttl_us, j.visibility_us, j.execution_timeout_us + :overrun_us),
        worker_id = COALESCE((CAST(:worker_ids AS text[]))[n.place], :worker_id)
