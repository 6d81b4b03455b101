-- takes: name, cost_us
-- returns: wait_us
-- locks: waits
-- Reserve a stretch of time under a shared rate: it begins where the last one ends, or now.
-- Gives the microseconds until it begins.
INSERT INTO euterpe_rate_limits AS r (name, next_at) VALUES (:name, {{now}} + :cost_us)
ON CONFLICT (name) DO UPDATE
SET next_at = CASE WHEN r.next_at > {{now}} THEN r.next_at ELSE {{now}} END + :cost_us
RETURNING r.next_at - :cost_us - {{now}}
