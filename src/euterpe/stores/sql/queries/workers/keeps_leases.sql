EXISTS (SELECT 1 FROM inbox_jobs AS j
               WHERE {{is_running}} AND j.worker_id = w.worker_id AND j.lease_expires_at > {{now}})
