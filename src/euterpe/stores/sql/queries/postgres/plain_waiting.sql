(SELECT range_agg(x) FROM (SELECT unnest(r.ranges) FROM euterpe_ready AS r
                           UNION ALL SELECT unnest(c.ranges) FROM euterpe_claims AS c) AS o (x))
