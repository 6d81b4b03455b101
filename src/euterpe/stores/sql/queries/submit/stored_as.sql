-- takes: id
-- returns: state, created_at
-- locks: none
-- How a job that was just stored begins, by the database's clock.
SELECT state, created_at FROM inbox_jobs WHERE id = :id
