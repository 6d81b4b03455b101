-- A job's row is written twice after its insert. While another turn is open its old versions cannot be pruned, so the third
-- has to fit on the page beside them: at 50 a fifth of the updates left their page, with entries in every index and WAL for it.
ALTER TABLE inbox_jobs SET (fillfactor = 40);
