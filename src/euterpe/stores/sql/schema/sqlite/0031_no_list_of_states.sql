-- SQLite looks a state up in these lists at every write, which is a quarter of the work of claiming and completing a job. SQLite documents this
-- way to take a CHECK away: the table need not be written again, and triggers that an application put on it stay. Where the schema cannot be
-- edited so (`migrations.OPTIONAL`), the lists stay.
PRAGMA writable_schema = ON;
UPDATE sqlite_master
SET sql = replace(replace(sql, ' CHECK (state IN (''pending'', ''scheduled'', ''delayed'', ''running'', ''retrying'',
                                                           ''completed'', ''failed'', ''dead_letter'', ''cancelled''))', ''),
                  ' CHECK (state IN (''scheduled'', ''running'', ''retrying'', ''completed'', ''dead_letter''))', '')
WHERE type = 'table' AND name IN ('inbox_jobs', 'job_outbox_events');
PRAGMA writable_schema = RESET;
