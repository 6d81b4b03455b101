-- takes: each wait_us, name
-- returns: nothing
-- locks: waits
-- The other side asked for a pause: no token of this key before it is over, and then one after the other.
UPDATE euterpe_key_rates
SET full_at = CASE WHEN full_at > {{now}} + :wait_us + (burst - 1) * interval_us THEN full_at
                   ELSE {{now}} + :wait_us + (burst - 1) * interval_us END,
    held_until = CASE WHEN held_until > {{now}} + :wait_us THEN held_until ELSE {{now}} + :wait_us END
WHERE name = :name
