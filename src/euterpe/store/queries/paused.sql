SELECT kind, name, paused_at FROM pauses ORDER BY kind, name
