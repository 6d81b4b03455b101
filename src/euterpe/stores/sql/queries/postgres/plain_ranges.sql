CASE s.state WHEN 'scheduled' THEN {{plain_waiting}}
             WHEN 'completed' THEN {{everywhere}} - COALESCE((SELECT range_agg(x) FROM euterpe_ready AS r, unnest(r.ranges) AS x), '{}') END
