CAST(j.id AS TEXT), 'completed', j.has_dependents, j.callback_url IS NOT NULL, j.callback_events, j.requester_id || char(31) || j.concurrency_key,
    j.claim_version, j.seq
