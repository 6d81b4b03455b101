SELECT 1 FROM euterpe_ready AS r WHERE r.queue = :queue LIMIT 1
