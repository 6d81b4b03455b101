hashtextextended(key, CAST(CAST('inbox_jobs' AS regclass) AS bigint))
