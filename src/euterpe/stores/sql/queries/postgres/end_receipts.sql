-- Receipts whose jobs are all settled or on their rows. Who looks for one that stands for more finds it until then.
DELETE FROM euterpe_claims AS c
WHERE c.receipt {{in receipts bigint}}
  AND NOT EXISTS (SELECT 1 FROM unnest(c.ranges) AS x, {{plain_in}})
