-- takes: id
-- returns: id
-- locks: waits
-- Whoever changes a requester's secrets holds its row, so that two of them take turns.
SELECT r.id FROM euterpe_requesters AS r WHERE r.id = :id {{lock r}}
