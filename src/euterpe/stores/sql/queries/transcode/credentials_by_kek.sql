-- takes: nothing
-- returns: storage_creds_kek_id, count
-- locks: none
-- How many credentials each key-encryption key wraps.
SELECT c.storage_creds_kek_id, COUNT(*) FROM euterpe_transcode_credentials AS c
WHERE c.storage_creds_encrypted IS NOT NULL GROUP BY c.storage_creds_kek_id
