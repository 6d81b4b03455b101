claim_version = 0 AND max_attempts > 1 AND type {{in prefetch_types text}}
