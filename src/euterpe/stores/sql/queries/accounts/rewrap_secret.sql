-- takes: dek_wrapped, kek_id, id, old_kek_id
-- returns: id
-- locks: waits
-- Another wrap for the same secret, unless someone was faster.
UPDATE euterpe_webhook_secrets AS s SET dek_wrapped = :dek_wrapped, kek_id = :kek_id
WHERE s.id = :id AND s.kek_id = :old_kek_id
RETURNING s.id
