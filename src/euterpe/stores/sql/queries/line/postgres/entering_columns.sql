j.seq, j.queue, j.type, j.priority, j.state, j.expires_at, j.scheduled_at, j.claim_version, j.max_attempts,
              j.callback_url, j.callback_events, j.requester_id, j.concurrency_key, j.concurrency_limit
