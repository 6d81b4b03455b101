-- takes: ids
-- returns: nothing
-- locks: waits
DELETE FROM euterpe_outbox_deliveries WHERE event_id {{in ids uuid}}
