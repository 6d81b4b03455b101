-- Postgres keeps its partial indexes of events; SQLite has one in place of two from here on.
SELECT 1;
