r.queue = :queue
      AND r.type NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'type')
      AND NOT EXISTS (SELECT 1 FROM euterpe_pauses WHERE kind = 'queue' AND name = :queue)
      AND r.expires_at > {{now}}
      AND (CAST(:types AS text[]) IS NULL OR r.type = ANY (CAST(:types AS text[])))
