-- takes: nothing
-- returns: worker_id
-- locks: waits
-- What workers have left that fell silent, and whose leases nobody renews.
DELETE FROM euterpe_workers AS w WHERE w.expires_at <= {{now}} AND NOT {{workers/keeps_leases}}
RETURNING w.worker_id
