-- `pick` for a worker that asks for more than it can begin at once; and which of those cannot wait, whatever their keys say.
SELECT json_group_array(seq), COALESCE(SUM(size), 0), :now, {{picked_rows}}, json_group_array(seq) FILTER (WHERE NOT can_wait)
FROM (
    SELECT j.seq, {{picked_columns}}, {{may_wait}} AS can_wait
    FROM inbox_jobs AS j
    WHERE {{claimable}}
      AND (:types IS NULL OR type IN (SELECT value FROM json_each(:types)))
    ORDER BY priority, seq
    LIMIT :limit
)
