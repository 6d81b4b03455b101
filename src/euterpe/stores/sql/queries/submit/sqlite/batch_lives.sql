-- Of the jobs that the answer of a batch's key names: one that lives, or that ended (or was pruned) less than its window ago.
-- A stored answer that is no JSON must stop no sweep.
SELECT 1
FROM json_each(CASE WHEN substr(k.response, 1, 1) = x'5b' AND json_valid(CAST(k.response AS TEXT))
                    THEN CAST(k.response AS TEXT) ELSE '[]' END) AS named
WHERE EXISTS (SELECT 1 FROM inbox_jobs AS b
              WHERE b.id = CASE WHEN named.type = 'object' THEN json_extract(named.value, '$.job_id') END
                AND (b.completed_at IS NULL OR b.completed_at + (k.expires_at - k.created_at) > {{now}}))
   OR EXISTS (SELECT 1 FROM euterpe_tombstones AS b
              WHERE b.job_id = CASE WHEN named.type = 'object' THEN json_extract(named.value, '$.job_id') END
                AND b.pruned_at + (k.expires_at - k.created_at) > {{now}})
