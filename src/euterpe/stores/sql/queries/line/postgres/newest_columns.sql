w.seq, w.id, w.requester_id, w.queue, w.type, w.state, w.stage, w.priority, w.attempt_count, w.transitions, w.worker_id,
     w.created_at, w.updated_at, w.run_at, w.scheduled_at, w.started_at, w.completed_at
