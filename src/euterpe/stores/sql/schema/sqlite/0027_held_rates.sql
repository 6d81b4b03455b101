-- Until when the other side asked for a pause: a change of the rate keeps this time, while tokens come at the new rate.
ALTER TABLE euterpe_key_rates ADD COLUMN held_until INTEGER NOT NULL DEFAULT 0;
