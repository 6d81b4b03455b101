-- A requester, once. No row back: it is known already.
INSERT INTO requesters (id, created_at) VALUES (:id, {{now}}) ON CONFLICT DO NOTHING RETURNING id
