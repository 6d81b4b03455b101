-- Another transaction holds the run, or did a moment ago: one that ran when this statement began, or that began later.
(r.xmax <> '0' AND (CAST(CAST(r.xmax AS text) AS bigint) = ANY (CAST((SELECT o.running FROM others AS o) AS bigint[]))
                    OR ((CAST(CAST(r.xmax AS text) AS bigint) - (SELECT o.next FROM others AS o)) & 4294967295) < 2147483648))
