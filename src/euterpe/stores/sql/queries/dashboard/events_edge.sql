-- takes: state, before, skip
-- returns: seq
-- locks: none
-- The event of this state that stands :skip places further down: as far as one page looks. Reads the index, and no event.
SELECT e.seq FROM job_outbox_events AS e
WHERE e.state = :state AND e.seq < :before
ORDER BY e.seq DESC LIMIT 1 OFFSET :skip
