-- takes: names, schema
-- returns: indexrelid
-- locks: none
-- Indexes of our tables that cannot be used.
SELECT CAST(CAST(i.indexrelid AS regclass) AS text)
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indrelid
WHERE NOT i.indisvalid AND c.relname = ANY (CAST(:names AS text[]))
  AND c.relnamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = COALESCE(CAST(:schema AS text), current_schema()))
