j.state = 'scheduled' AND j.line <> ''
       AND NOT EXISTS (SELECT 1 FROM euterpe_key_fronts AS f WHERE f.name = j.line AND f.queue = j.queue AND f.type = j.type)
