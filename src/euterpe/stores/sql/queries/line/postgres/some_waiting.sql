-- The numbers of up to :limit jobs of the line, and as many of keys' own lines.
(SELECT n.seq FROM (SELECT r.* FROM euterpe_line AS r ORDER BY r.queue, r.type, r.priority, r.rank, r.seq LIMIT :limit) AS r,
      LATERAL generate_series(r.seq, r.seq + r.jobs - 1) AS n (seq) LIMIT :limit)
UNION
(SELECT l.seq FROM euterpe_key_line AS l ORDER BY l.key, l.queue, l.type, l.priority, l.seq LIMIT :limit)
