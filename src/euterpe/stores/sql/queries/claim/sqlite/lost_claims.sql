-- takes: worker_ids, elapsed_us
-- returns: job_columns
-- locks: none
-- What these workers claimed since a claim began whose answer was lost: all that its jobs can be known by.
SELECT {{job_columns}} FROM inbox_jobs AS j
WHERE {{is_running}} AND j.worker_id {{in worker_ids text}} AND j.started_at >= {{now}} - :elapsed_us
