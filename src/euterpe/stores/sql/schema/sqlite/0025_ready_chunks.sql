-- Only Postgres has ready chunks (ADR 017).
SELECT 1;
