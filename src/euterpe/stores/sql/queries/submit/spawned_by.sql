-- takes: ids
-- returns: id
-- locks: none
-- Everything these jobs spawned, and what that spawned in turn.
WITH RECURSIVE family (id) AS (
    SELECT id FROM inbox_jobs WHERE parent_id {{in ids uuid}}
    UNION
    SELECT c.id FROM inbox_jobs AS c JOIN family AS f ON c.parent_id = f.id
)
SELECT CAST(id AS TEXT) FROM family
