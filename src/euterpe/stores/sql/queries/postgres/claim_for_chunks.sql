-- As `claim_for`, for a queue that has chunks (ADR 017): jobs of chunks and of the claim index are merged in one order, and all
-- are claimed onto their rows. A row that somebody holds stays in its chunk; a job
-- that is gone (deleted, or ended by an older release) leaves it. The second column tells whether chunks are left.
WITH wanted AS MATERIALIZED (
    SELECT CAST(:limit AS integer) + CAST(:prefetch AS integer) AS total
), {{chunk_line}}, {{chunk_free}}, placed_rows AS MATERIALIZED (
    SELECT at, row_number() OVER (ORDER BY priority, seq) AS place FROM onto_rows
), taken AS (
    UPDATE inbox_jobs AS j
    SET chunk = NULL, parked = false, {{leased_by_token}}
    FROM placed_rows AS placed
    WHERE j.ctid = placed.at
    RETURNING {{job_columns}}
), {{chunk_rest}}
SELECT line.plain, {{chunks_left}}, j.*
FROM line LEFT JOIN taken AS j ON true
