-- takes: nothing
-- returns: slot_name
-- locks: none
-- Replication slots that nobody reads from: the server keeps what they have not read.
SELECT CAST(s.slot_name AS text) FROM pg_replication_slots AS s WHERE NOT s.active ORDER BY 1 LIMIT 10
