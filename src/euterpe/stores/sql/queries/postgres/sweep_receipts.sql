-- Receipts that ran out, or all of one worker, or these: the claims that they still stand for go onto the rows.
WITH over AS MATERIALIZED (
    SELECT c.receipt, c.worker_id, c.claimed_at, c.lease_expires_at, c.ranges FROM euterpe_claims AS c
    WHERE CASE WHEN CAST(:receipts AS bigint[]) IS NOT NULL THEN c.receipt {{in receipts bigint}}
               WHEN CAST(:worker_id AS text) IS NOT NULL THEN c.worker_id = :worker_id ELSE c.lease_expires_at < {{now}} END
    ORDER BY c.receipt LIMIT :limit FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM euterpe_claims AS c USING over WHERE c.receipt = over.receipt
), held AS MATERIALIZED (
    SELECT w.id, over.receipt
    FROM over, unnest(over.ranges) AS x, inbox_jobs AS w
    WHERE w.state = 'scheduled' AND w.seq >= lower(x) AND w.seq < upper(x) AND w.chunk IS NOT NULL
    ORDER BY w.id FOR NO KEY UPDATE OF w
), written AS (
    UPDATE inbox_jobs AS j SET {{claimed_then}}
    FROM held JOIN over AS c ON c.receipt = held.receipt
    WHERE j.id = held.id AND j.chunk IS NOT NULL AND j.state || '' = 'scheduled'
)
SELECT COUNT(*) FROM over
