d.depends_on, j.id, j.dependency, j.pending_dependencies, j.callback_url IS NOT NULL, j.seq, j.requester_id || char(31) || j.concurrency_key
