(:requester_id IS NULL OR w.requester_id = :requester_id)
              AND (:type IS NULL OR w.type = :type)
              AND (:type_prefix IS NULL OR substr(w.type, 1, length(:type_prefix)) = :type_prefix)
              AND (:queue IS NULL OR w.queue = :queue)
              AND (:created_after IS NULL OR w.created_at > :created_after)
              AND (:created_before IS NULL OR w.created_at < :created_before)
              AND (:ended_after IS NULL OR w.completed_at > :ended_after)
              AND (:ended_before IS NULL OR w.completed_at < :ended_before)
              AND (:replayed IS NULL OR (w.replayed_as IS NOT NULL) = :replayed)
              AND (:correlation_id IS NULL OR w.correlation_id = :correlation_id)
              AND (:error IS NULL OR instr(w.error, '{"code":' || :error) = 1
                   OR instr(w.error, ',"category":' || :error) > 0)
              AND NOT EXISTS (SELECT 1 FROM json_each(:tags) AS t
                              WHERE COALESCE(instr(w.tags, '{' || t.value) <> 1 AND instr(w.tags, ',' || t.value) = 0, TRUE))
