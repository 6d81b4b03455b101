-- What workers have left that fell silent.
DELETE FROM euterpe_workers WHERE expires_at <= {{now}}
RETURNING worker_id
