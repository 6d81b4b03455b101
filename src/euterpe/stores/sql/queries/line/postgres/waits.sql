(CAST(:prefetch AS bigint) = 0 OR (r.can_wait AND r.type {{in prefetch_types text}}))
