EXISTS (SELECT 1 FROM euterpe_ready AS r WHERE {{ready}} AND r.chunk NOT IN (SELECT chunk FROM gone))
