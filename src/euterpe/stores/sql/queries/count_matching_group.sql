-- The same of the failures with one fingerprint.
SELECT COUNT(*) FROM ({{matching_group}}) AS m
