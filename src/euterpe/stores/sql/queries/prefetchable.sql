{{may_wait}} AND concurrency_key IS NULL
