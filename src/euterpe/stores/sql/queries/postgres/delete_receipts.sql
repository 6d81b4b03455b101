-- Receipts whose jobs are all settled, as their worker knows. One that a sweep holds goes with it.
DELETE FROM euterpe_claims AS c
WHERE c.receipt IN (SELECT o.receipt FROM euterpe_claims AS o WHERE o.receipt {{in receipts bigint}} FOR UPDATE SKIP LOCKED)
