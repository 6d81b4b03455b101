-- takes: ids
-- returns: nothing
-- locks: waits
DELETE FROM inbox_jobs WHERE id {{in ids uuid}}
