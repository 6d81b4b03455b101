LATERAL (SELECT * FROM inbox_jobs AS w
             WHERE {{within}} AND w.chunk IS NOT NULL AND w.state || '' = 'scheduled' OFFSET 0) AS j
