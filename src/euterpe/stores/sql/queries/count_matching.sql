-- How many jobs match, up to a limit.
SELECT COUNT(*) FROM ({{matching}}) AS m
