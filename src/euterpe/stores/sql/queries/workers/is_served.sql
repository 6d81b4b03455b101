-- takes: queue, type
-- returns: is_served
-- locks: none
-- Whether a job of this queue and type runs on a worker that keeps its lease. The running set is what workers hold.
SELECT EXISTS (
    SELECT 1 FROM inbox_jobs AS j
    WHERE {{is_running}} AND j.queue = :queue AND j.type = :type AND j.lease_expires_at > {{now}}
)
