-- How many jobs of a limit key may start in a time: a token every interval_us, at most burst of them at once. full_at is
-- when the bucket is full again; offered_at when parked jobs were last let go for a token.
CREATE TABLE euterpe_key_rates (
    name        TEXT NOT NULL PRIMARY KEY,
    interval_us INTEGER NOT NULL CHECK (interval_us > 0),
    burst       INTEGER NOT NULL CHECK (burst > 0),
    full_at     INTEGER NOT NULL,
    offered_at  INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
