-- A job that is not scheduled any more, or at another place, leaves its own run; in a longer one the claim passes it over. Its key's
-- own line it leaves while the key is held (`recount_line`): who admits a job holds the key and waits for nobody.
gone AS (
    DELETE FROM euterpe_line AS r USING leaving AS j
    WHERE r.queue = j.queue AND r.type = j.type AND r.priority = j.priority AND r.rank = 0 AND r.seq = j.seq AND r.jobs = 1
)
