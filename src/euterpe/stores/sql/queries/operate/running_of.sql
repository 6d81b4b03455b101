-- takes: ordered_by
-- returns: count
-- locks: none
-- How many operations somebody has under way.
SELECT COUNT(*) FROM euterpe_operations AS o WHERE o.state = 'running' AND o.ordered_by = :ordered_by
