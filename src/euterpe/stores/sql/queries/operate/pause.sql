-- takes: kind, name
-- returns: nothing
-- locks: waits
INSERT INTO euterpe_pauses (kind, name, paused_at) VALUES (:kind, :name, {{now}}) ON CONFLICT DO NOTHING
