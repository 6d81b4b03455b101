-- takes: id
-- returns: id
-- locks: waits
-- A requester, once. No row back: it is known already.
INSERT INTO euterpe_requesters (id, created_at) VALUES (:id, {{now}}) ON CONFLICT DO NOTHING RETURNING id
