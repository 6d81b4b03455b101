claim_version = 0 AND max_attempts > 1 AND concurrency_key IS NULL AND type {{in prefetch_types text}}
