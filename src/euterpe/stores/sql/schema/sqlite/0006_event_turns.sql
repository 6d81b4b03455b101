-- Whose events wait, by requester: so that one whose receivers hang, or who has far more of them, does not go before all
-- others. The condition is in words that no other statement uses, so that none is tempted to go by this index.
CREATE INDEX job_outbox_events_turns ON job_outbox_events (requester_id, run_at, seq)
    WHERE state || '' IN ('scheduled', 'retrying');
