-- takes: channel, queues
-- returns: told
-- locks: none
-- SQLite has no listeners; other processes watch the file.
SELECT 1 WHERE :channel IS NULL AND :queues IS NULL
