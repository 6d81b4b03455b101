claim_version = 0
           AND COALESCE(stages, tags, correlation_id, idempotency_key, parent_id, replay_of, cancel_version, result, error,
                        checkpoint) IS NULL
