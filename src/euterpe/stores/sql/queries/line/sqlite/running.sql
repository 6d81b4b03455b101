(SELECT COUNT(*) FROM inbox_jobs AS o INDEXED BY inbox_jobs_running_keys
            WHERE o.line = f.name AND o.state || '' = 'running' AND o.concurrency_key IS NOT NULL)
