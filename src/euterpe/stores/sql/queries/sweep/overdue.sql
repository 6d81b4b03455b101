-- takes: keep_us, state, limit, after
-- returns: max_age_us
-- locks: none
-- How long ago the first of the oldest ended jobs of a state should have been removed; nothing if none should.
SELECT MAX({{now}} - :keep_us - j.completed_at) FROM inbox_jobs AS j
WHERE j.id IN (
{{oldest_ended}}
)
