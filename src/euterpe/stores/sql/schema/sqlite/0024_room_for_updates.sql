-- Postgres leaves more room on its pages from here on; SQLite rewrites a row where it is.
SELECT 1;
