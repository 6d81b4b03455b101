-- Of the jobs that the answer of a batch's key names: one that lives, or that ended (or was pruned) less than its window ago.
-- Read as text, because a stored answer that is no JSON must stop no sweep. Each job is looked up by its id: an EXISTS
-- might be planned to read all of them.
SELECT 1
FROM regexp_matches(encode(k.response, 'escape'),
                    '"job_id":"([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})"', 'g') AS named (ids)
WHERE (SELECT b.completed_at IS NULL OR b.completed_at + (k.expires_at - k.created_at) > {{now}}
       FROM inbox_jobs AS b WHERE b.id = CAST(named.ids[1] AS uuid))
   OR (SELECT b.pruned_at + (k.expires_at - k.created_at) > {{now}}
       FROM euterpe_tombstones AS b WHERE b.job_id = CAST(named.ids[1] AS uuid))
