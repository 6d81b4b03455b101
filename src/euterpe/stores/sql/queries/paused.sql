SELECT kind, name, paused_at FROM euterpe_pauses ORDER BY kind, name
