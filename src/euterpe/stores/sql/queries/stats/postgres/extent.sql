-- takes: nothing
-- returns: first, count, step
-- locks: none
-- The first page of the table, how many pages there are, and how many of them make a sample: places have no index here.
SELECT 0, pg_relation_size(CAST('inbox_jobs' AS regclass)) / current_setting('block_size')::bigint, 500
