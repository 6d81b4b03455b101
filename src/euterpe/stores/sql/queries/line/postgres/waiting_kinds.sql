-- Where the scheduled jobs of a search stand: kinds in the line, and keys' own lines. With more of them than are sought, jobs are looked at by their
-- numbers.
known_lines AS MATERIALIZED (SELECT k.* FROM {{line_kinds}} AS k),
known_keys AS MATERIALIZED (SELECT k.* FROM {{own_lines}} AS k),
lines AS MATERIALIZED (SELECT k.* FROM known_lines AS k WHERE {{asked_kind}}),
keys AS MATERIALIZED (SELECT k.* FROM known_keys AS k WHERE {{asked_kind}}),
sought AS MATERIALIZED (
    SELECT (SELECT COUNT(*) FROM lines) + (SELECT COUNT(*) FROM keys) AS kinds,
           (SELECT COUNT(*) FROM known_lines) < 1000 AND (SELECT COUNT(*) FROM known_keys) < 1000 AS all_known
)
