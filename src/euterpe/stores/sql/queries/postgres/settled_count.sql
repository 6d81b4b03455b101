done AS MATERIALIZED (
    SELECT COUNT(*) AS count,
           CASE WHEN COUNT(*) < CAST(:settling AS integer) THEN array_agg(CAST(id AS text)) END AS ids,
           CASE WHEN COUNT(*) < CAST(:settling AS integer) THEN array_agg(claim_version) END AS versions
    FROM settled
)
