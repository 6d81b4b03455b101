-- Claims count what runs of a concurrency key, and park what is ready of it; nobody looks for what has ended. So what ends gets no
-- entry in the index by key, and a key's history no place in it. Its conditions are in the words of the statements.
DROP INDEX inbox_jobs_concurrency;
CREATE INDEX inbox_jobs_concurrency ON inbox_jobs ((requester_id || char(31) || concurrency_key), state, seq)
    WHERE concurrency_key IS NOT NULL AND completed_at IS NULL;
