-- takes: limit
-- returns: name
-- locks: none
-- Keys whose rates have tokens for jobs that wait for them.
SELECT k.name FROM euterpe_keys AS k WHERE k.due_at <= {{now}} ORDER BY k.due_at LIMIT :limit
