CAST(j.id AS TEXT), j.requester_id, j.type, j.queue, j.state, j.stage, j.attempt_count, j.transitions, j.updated_at
