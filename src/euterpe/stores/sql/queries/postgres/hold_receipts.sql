-- Hold receipts: these, or those of one worker, or those that have run out. One that somebody holds is left to them.
SELECT c.receipt FROM euterpe_claims AS c
WHERE CASE WHEN CAST(:receipts AS bigint[]) IS NOT NULL THEN c.receipt {{in receipts bigint}}
           WHEN CAST(:worker_id AS text) IS NOT NULL THEN c.worker_id = :worker_id
           ELSE c.expires_at < {{now}} END
ORDER BY c.receipt LIMIT :limit FOR UPDATE SKIP LOCKED
