-- Parked jobs are let go for the tokens of this key; only one of those who saw them does it.
UPDATE euterpe_key_rates SET offered_at = {{now}} WHERE name = :name AND offered_at = :offered_at AND full_at = :full_at
RETURNING name
