-- takes: late_us
-- returns: count
-- locks: none
-- Operations on many jobs that have not moved for a while.
SELECT COUNT(*) FROM euterpe_operations AS o WHERE o.state = 'running' AND o.updated_at < {{now}} - :late_us
