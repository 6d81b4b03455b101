-- All states are the table backwards, one state is its part of the index backwards; the half that was not asked for is false before its first row.
-- As one condition with OR, a rare state was sought in the whole history.
SELECT * FROM (
            SELECT w.seq, w.id, length(w.payload) + COALESCE(length(w.result), 0) + COALESCE(length(w.checkpoint), 0) AS bytes
            FROM inbox_jobs AS w
            WHERE json_array_length(:states) > 1 AND w.seq < :before AND w.seq >= :down_to
              AND {{search_filters}}
            ORDER BY w.seq DESC LIMIT :limit
        )
        UNION ALL
        SELECT * FROM (
            SELECT w.seq, w.id, length(w.payload) + COALESCE(length(w.result), 0) + COALESCE(length(w.checkpoint), 0) AS bytes
            FROM inbox_jobs AS w
            WHERE json_array_length(:states) = 1 AND w.state = :states ->> 0 AND w.seq < :before AND w.seq >= :down_to
              AND {{search_filters}}
            ORDER BY w.seq DESC LIMIT :limit
        )
        ORDER BY seq DESC
        LIMIT :limit
