-- takes: limit
-- returns: name
-- locks: skips
-- Keys of jobs that were submitted in transactions of callers.
DELETE FROM euterpe_entered_keys WHERE ctid = ANY (ARRAY(SELECT e.ctid FROM euterpe_entered_keys AS e LIMIT :limit FOR UPDATE SKIP LOCKED))
RETURNING name
