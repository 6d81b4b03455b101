running AS (
    INSERT INTO euterpe_running (expires_at, request, worker_id, seqs)
    SELECT MIN(t.lease_expires_at), :request, :worker_id, array_agg(t.seq) FROM taken AS t HAVING COUNT(*) > 0
    RETURNING claim
), over AS (
    DELETE FROM euterpe_running WHERE claim = ANY (CAST(:over AS bigint[]))
)
