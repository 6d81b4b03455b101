DELETE FROM outbox_deliveries WHERE event_id {{in ids uuid}}
