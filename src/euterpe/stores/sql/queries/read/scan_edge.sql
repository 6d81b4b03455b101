-- takes: state, before, skip
-- returns: seq
-- locks: none
-- The job of this state that stands :skip places further down: as far as one page looks. Reads the index, and no job.
SELECT w.seq FROM inbox_jobs AS w
WHERE w.state = :state AND w.seq < :before
ORDER BY w.seq DESC LIMIT 1 OFFSET :skip
