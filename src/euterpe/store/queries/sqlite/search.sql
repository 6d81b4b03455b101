-- Newest first. One state asked for is an index scan; all of them is the table backwards.
SELECT {{job_columns}}
FROM inbox_jobs AS j
WHERE j.seq < :before
  AND (json_array_length(:states) = 9 OR j.state IN (SELECT value FROM json_each(:states)))
  AND (:requester_id IS NULL OR j.requester_id = :requester_id)
  AND (:type IS NULL OR j.type = :type)
  AND (:queue IS NULL OR j.queue = :queue)
  AND (:tag_key IS NULL OR EXISTS (SELECT 1 FROM json_each(j.tags) AS t
                                   WHERE t.key = :tag_key AND t.value = :tag_value))
ORDER BY j.seq DESC
LIMIT :limit
