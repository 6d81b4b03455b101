j.completed_at IS NULL AND j.state
