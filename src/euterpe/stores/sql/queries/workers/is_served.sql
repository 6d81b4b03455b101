-- Whether a job of this queue and type runs on a worker that keeps its lease. The running set is what workers hold.
SELECT EXISTS (
    SELECT 1 FROM inbox_jobs
    WHERE {{indexed_state}} = 'running' AND queue = :queue AND type = :type AND lease_expires_at > {{now}}
)
