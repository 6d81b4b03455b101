(SELECT n.* FROM (SELECT CAST(:state AS text) AS state) AS s, LATERAL ({{newest}}) AS n) AS of_state
