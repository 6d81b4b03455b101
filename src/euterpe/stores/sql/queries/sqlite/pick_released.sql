-- `pick_ahead` for a transaction that lets jobs go which waited for others: those of them that are ready stand in the line, by priority and number,
-- before they are written. SQLite merges the two, so nothing is read of the line behind the last that comes.
SELECT json_group_array(seq), COALESCE(SUM(size), 0), :now, {{picked_rows}}, json_group_array(seq) FILTER (WHERE NOT can_wait)
FROM (
    SELECT j.priority AS priority, j.seq AS seq, {{picked_columns}}, {{may_wait}} AS can_wait
    FROM inbox_jobs AS j
    WHERE {{claimable}}
      AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
    UNION ALL
    SELECT j.priority AS priority, j.seq AS seq, {{picked_columns}}, {{may_wait}} AS can_wait
    FROM inbox_jobs AS j
    WHERE j.seq IN (SELECT value FROM json_each(:released)) AND j.pending_dependencies > 0 AND j.run_at <= :now AND {{unpaused}}
      AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
    ORDER BY priority, seq
    LIMIT :limit
)
