-- As `claim`, for a queue that has chunks (ADR 017): jobs of chunks and of the claim index are merged in one order, and all are
-- claimed onto their rows. A row that somebody holds stays in its chunk; a job
-- that is gone (deleted, or ended by an older release) leaves it. The first column tells whether chunks are left.
WITH wanted AS MATERIALIZED (
    SELECT CAST(:limit AS integer) + CAST(:prefetch AS integer) AS total
), {{chunk_line}}, {{chunk_free}}, taken AS (
    UPDATE inbox_jobs AS j
    SET chunk = NULL, parked = false, {{leased}}
    FROM onto_rows
    WHERE j.ctid = onto_rows.at
    RETURNING {{job_columns}}
), {{chunk_rest}}
SELECT {{chunks_left}}, j.*
FROM wanted LEFT JOIN taken AS j ON true
