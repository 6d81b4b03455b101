-- When the next delayed or retrying job is due, or the next token of a key that jobs are parked for; and what time it is.
-- Where jobs were let go for a token just now, the next one is expected an interval later: by then this one is taken.
SELECT MIN(due.at), {{now}}
FROM (
    SELECT MIN(run_at) AS at FROM inbox_jobs {{by inbox_jobs_due}} WHERE {{indexed_state}} IN ('delayed', 'retrying')
    UNION ALL
    SELECT CASE WHEN r.offered_at < r.full_at - (r.burst - 1) * r.interval_us
                THEN r.full_at - (r.burst - 1) * r.interval_us ELSE r.offered_at + r.interval_us END
    FROM euterpe_key_rates AS r
    WHERE (r.offered_at < r.full_at - (r.burst - 1) * r.interval_us OR r.offered_at + r.interval_us > {{now}})
      AND EXISTS (SELECT 1 FROM inbox_jobs AS j WHERE j.parked AND {{limit_key}} = r.name || '')
) AS due
