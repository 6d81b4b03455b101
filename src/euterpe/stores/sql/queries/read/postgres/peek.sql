-- takes: limit, queue
-- returns: job_columns
-- locks: none
-- What a claim of this queue would take next; nothing is taken.
SELECT {{job_columns}} FROM {{front_of_queue}}
ORDER BY r.priority, r.rank, r.seq, n.seq
LIMIT :limit
