-- takes: state, limit, after, keep_us
-- returns: id, requester_id, state
-- locks: skips
-- Ended jobs past retention. A job that ended long after it was submitted can make others wait for its own retention to
-- end, not for longer.
SELECT CAST(j.id AS TEXT), j.requester_id, j.state FROM inbox_jobs AS j
WHERE j.id IN (
{{oldest_ended}}
)
  AND j.state || '' = :state AND j.completed_at <= {{now}} - :keep_us
{{skip_locked}}
