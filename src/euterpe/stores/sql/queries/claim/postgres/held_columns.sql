r.ctid AS at, r.queue, r.type, r.priority, r.rank, r.seq, r.jobs AS size, r.key, {{waits}} AS can_wait
