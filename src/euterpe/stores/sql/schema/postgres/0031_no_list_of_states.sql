-- Postgres has had no such lists since migration 1; SQLite loses its own here.
SELECT 1;
