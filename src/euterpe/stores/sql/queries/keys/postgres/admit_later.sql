-- takes: rows of name
-- returns: nothing
-- locks: waits
-- Jobs of these keys enter the line after this transaction.
INSERT INTO euterpe_entered_keys (name) SELECT i.name FROM unnest(CAST(:name AS text[])) AS i (name)
