-- takes: seqs
-- returns: job_columns
-- locks: skips
-- Of these jobs, which stand in a line, those past their total lifetime.
SELECT {{job_columns}} FROM inbox_jobs AS j
WHERE j.seq {{in seqs bigint}} AND j.state = 'scheduled' AND j.expires_at <= {{now}}
ORDER BY j.seq {{skip_locked}}
