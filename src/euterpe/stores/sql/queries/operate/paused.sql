-- takes: nothing
-- returns: kind, name, paused_at
-- locks: none
SELECT kind, name, paused_at FROM euterpe_pauses ORDER BY kind, name
