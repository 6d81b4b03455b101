type NOT IN (SELECT name FROM euterpe_pauses WHERE kind = 'type')
          AND NOT EXISTS (SELECT 1 FROM euterpe_pauses WHERE kind = 'queue' AND name = :queue)
