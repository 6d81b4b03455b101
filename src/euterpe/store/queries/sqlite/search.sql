-- Newest first. All states are the table backwards, one state is its part of the index backwards; the half that was not
-- asked for is false before its first row. As one condition with OR, a rare state was sought in the whole history.
SELECT {{job_columns}}
FROM (
    SELECT * FROM (
        SELECT * FROM inbox_jobs AS a
        WHERE json_array_length(:states) > 1 AND a.seq < :before
          AND (:requester_id IS NULL OR a.requester_id = :requester_id)
          AND (:type IS NULL OR a.type = :type)
          AND (:queue IS NULL OR a.queue = :queue)
          AND (:tag IS NULL OR instr(a.tags, '{' || :tag) = 1 OR instr(a.tags, ',' || :tag) > 0)
        ORDER BY a.seq DESC LIMIT :limit
    )
    UNION ALL
    SELECT * FROM (
        SELECT * FROM inbox_jobs AS o
        WHERE json_array_length(:states) = 1 AND o.state = :states ->> 0 AND o.seq < :before
          AND (:requester_id IS NULL OR o.requester_id = :requester_id)
          AND (:type IS NULL OR o.type = :type)
          AND (:queue IS NULL OR o.queue = :queue)
          AND (:tag IS NULL OR instr(o.tags, '{' || :tag) = 1 OR instr(o.tags, ',' || :tag) > 0)
        ORDER BY o.seq DESC LIMIT :limit
    )
) AS j
ORDER BY j.seq DESC
LIMIT :limit
