r.expires_at > {{now}} AND (CAST(:other_than AS text[]) = '{}'
             OR (SELECT o.requester_id FROM inbox_jobs AS o WHERE o.seq = r.seq) <> ALL (CAST(:other_than AS text[])))
