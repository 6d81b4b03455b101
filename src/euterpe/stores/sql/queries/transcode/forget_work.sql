-- takes: kept_us
-- returns: nothing
-- locks: waits
-- Shared work that is too old to be asked for again.
DELETE FROM euterpe_transcode_shared_work WHERE begun_at < {{now}} - :kept_us
