EXISTS (SELECT 1 FROM inbox_jobs AS j
               WHERE j.{{indexed_state}} = 'running' AND j.worker_id = w.worker_id AND j.lease_expires_at > {{now}})
