-- Newest first. All states are the table backwards, one state is its part of the index backwards; the half that was not
-- asked for is false before its first row. As one condition with OR, a rare state was sought in the whole history.
-- What is large comes along until there is :max_bytes of it; behind that it is NULL, and has not been read.
SELECT {{listed_columns}}
FROM (
    SELECT f.seq, SUM(f.bytes) OVER (ORDER BY f.seq DESC) - f.bytes AS bytes_before
    FROM (
        SELECT * FROM (
            SELECT a.seq, length(a.payload) + COALESCE(length(a.result), 0) + COALESCE(length(a.checkpoint), 0) AS bytes
            FROM inbox_jobs AS a
            WHERE json_array_length(:states) > 1 AND a.seq < :before
              AND (:requester_id IS NULL OR a.requester_id = :requester_id)
              AND (:type IS NULL OR a.type = :type)
              AND (:queue IS NULL OR a.queue = :queue)
              AND (:tag IS NULL OR instr(a.tags, '{' || :tag) = 1 OR instr(a.tags, ',' || :tag) > 0)
            ORDER BY a.seq DESC LIMIT :limit
        )
        UNION ALL
        SELECT * FROM (
            SELECT o.seq, length(o.payload) + COALESCE(length(o.result), 0) + COALESCE(length(o.checkpoint), 0) AS bytes
            FROM inbox_jobs AS o
            WHERE json_array_length(:states) = 1 AND o.state = :states ->> 0 AND o.seq < :before
              AND (:requester_id IS NULL OR o.requester_id = :requester_id)
              AND (:type IS NULL OR o.type = :type)
              AND (:queue IS NULL OR o.queue = :queue)
              AND (:tag IS NULL OR instr(o.tags, '{' || :tag) = 1 OR instr(o.tags, ',' || :tag) > 0)
            ORDER BY o.seq DESC LIMIT :limit
        )
    ) AS f
    ORDER BY f.seq DESC
    LIMIT :limit
) AS l
JOIN inbox_jobs AS j ON j.seq = l.seq
ORDER BY l.seq DESC
