-- takes: late_us
-- returns: count, min_lease_expires_at, now
-- locks: none
-- Running jobs whose lease ended a while ago, and nobody took them back.
SELECT COUNT(*), MIN(j.lease_expires_at), {{now}} FROM inbox_jobs AS j
WHERE {{is_running}} AND j.lease_expires_at < {{now}} - :late_us
