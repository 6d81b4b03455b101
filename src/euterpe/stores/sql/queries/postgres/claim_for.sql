-- Take scheduled jobs of one queue for waiting HTTP workers, the most urgent for the first of them, each with a token of
-- its own, made of :secret and the attempt's name (see `wire_brief.token_of`). If one that is next in line has a
-- callback or a key, none is taken here, and `claim` decides. The first column is the same in every row: whether the
-- line was plain; then comes a job that was taken, or NULLs.
WITH picked AS MATERIALIZED (
    SELECT w.ctid AS at, w.priority, w.seq, w.callback_url IS NULL AND w.concurrency_key IS NULL AS plain
    FROM inbox_jobs AS w
    WHERE {{claimable}}
      AND (CAST(:types AS text[]) IS NULL OR type = ANY (CAST(:types AS text[])))
    ORDER BY priority, seq
    LIMIT cardinality(CAST(:worker_ids AS text[]))
    FOR UPDATE OF w SKIP LOCKED
), line AS MATERIALIZED (
    SELECT bool_and(plain) AS plain FROM picked
), placed AS MATERIALIZED (
    SELECT at, row_number() OVER (ORDER BY priority, seq) AS place FROM picked
), taken AS (
    UPDATE inbox_jobs AS j
    SET {{claimed}},
        lease_expires_at = {{now}} + LEAST(:lease_ttl_us, j.visibility_us, j.execution_timeout_us),
        worker_id = (CAST(:worker_ids AS text[]))[placed.place],
        lease_token_hash = sha256(convert_to(encode(
            sha256(CAST(:secret AS bytea) || uuid_send(j.id) || int8send(j.claim_version + 1)), 'hex'), 'UTF8'))
    FROM placed
    WHERE j.ctid = placed.at AND (SELECT plain FROM line)
    RETURNING {{job_columns}}
)
SELECT line.plain, j.* FROM line LEFT JOIN taken AS j ON true
