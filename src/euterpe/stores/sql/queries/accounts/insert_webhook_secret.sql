-- takes: id, requester_id, encrypted, dek_wrapped, kek_id, encryption_version
-- returns: webhook_secret_columns
-- locks: waits
-- A webhook secret, sealed.
INSERT INTO euterpe_webhook_secrets AS s
    (id, requester_id, encrypted, dek_wrapped, kek_id, encryption_version, created_at)
VALUES (:id, :requester_id, :encrypted, :dek_wrapped, :kek_id, :encryption_version, {{now}})
RETURNING {{webhook_secret_columns}}
