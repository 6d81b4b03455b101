state = 'running', stage = 'claimed', stage_ordinal = 0,
        claim_version = j.claim_version + 1, attempt_count = j.attempt_count + 1,
        heartbeat_at = {{now}}, started_at = {{now}}, updated_at = {{now}}, progress = NULL, progress_message = NULL,
        transitions = j.transitions + 1
