-- takes: id, place
-- returns: found
-- locks: skips
-- Whoever acts on the batch at this place holds the operation. Somebody else who is at it is not waited for.
SELECT 1 FROM euterpe_operations AS o WHERE o.id = :id AND o.place = :place AND o.state = 'running' {{skip_locked}}
