-- takes: rows of name, freed
-- returns: nothing
-- locks: waits
-- Hold these keys until the transaction ends, in the order given, which is that of everybody; so many jobs of each have stopped running. That number
-- travels in a column that says nothing of a new key.
INSERT INTO euterpe_keys AS k (name, passed_until)
SELECT i.name, i.freed FROM unnest(CAST(:name AS text[]), CAST(:freed AS bigint[])) WITH ORDINALITY AS i (name, freed, place) ORDER BY i.place
ON CONFLICT (name) DO UPDATE SET running = GREATEST(0, k.running - CAST(excluded.passed_until AS integer))
WHERE excluded.passed_until > 0
