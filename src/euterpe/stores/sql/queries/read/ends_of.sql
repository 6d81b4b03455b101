-- takes: ids
-- returns: id, state, has_dependents, ended_by_dependency
-- locks: none
-- Of these jobs: the state, whether others wait or waited for it, and whether it ended because of one that it waited for.
-- By their ids alone: an index on states would lead through all that ever failed.
SELECT CAST(j.id AS TEXT), j.state, j.has_dependents, COALESCE(j.error LIKE '{"code":"dependency_ended"%', FALSE)
FROM inbox_jobs AS j WHERE j.id {{in ids uuid}}
