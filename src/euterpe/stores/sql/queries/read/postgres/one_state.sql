CASE WHEN cardinality(CAST(:states AS text[])) = 1 THEN (CAST(:states AS text[]))[1] END
