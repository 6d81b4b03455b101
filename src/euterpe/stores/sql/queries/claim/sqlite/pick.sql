-- takes: types, queue, small, prefetch_types, other_than, limit
-- returns: one row of seqs, bytes, now, is_quiet, ids, payloads, kinds, keys, cannot_wait
-- locks: none
-- Which jobs of one queue a claim takes next, most urgent first, oldest first inside a priority; how large they are; the time; whether
-- no event follows from their claim; the jobs themselves, if all of them are small and as their submit left them: ids, payloads, and what
-- jobs of a bulk submit have in common, once if it is all the same; those with a concurrency key, with what runs of it; and those that cannot wait.
SELECT json_group_array(seq), COALESCE(SUM(size), 0), :now, {{picked_rows}}, json_group_array(seq) FILTER (WHERE NOT can_wait)
FROM (
    WITH RECURSIVE asked (type) AS MATERIALIZED (
        {{asked_types}}
    ), {{line}}
    SELECT j.seq, {{picked_columns}}, j.claim_version = 0 AND j.max_attempts > 1 AND j.type {{in prefetch_types text}} AND l.tokens IS NULL AS can_wait
    FROM line AS l CROSS JOIN inbox_jobs AS j ON j.seq = l.seq
    WHERE j.state || '' = 'scheduled' AND j.expires_at > {{now}} AND (l.tokens < 1) IS NOT TRUE
      AND j.requester_id NOT IN (SELECT value FROM json_each(:other_than))
    LIMIT :limit
)
