-- takes: nothing
-- returns: sum_size
-- locks: none
-- How large the write-ahead log is; only for those who may look.
SELECT CAST(SUM(w.size) AS bigint) FROM pg_ls_waldir() AS w
