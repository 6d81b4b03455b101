(SELECT 'pending' AS state UNION ALL SELECT 'scheduled' UNION ALL SELECT 'delayed' UNION ALL SELECT 'running'
      UNION ALL SELECT 'retrying' UNION ALL SELECT 'completed' UNION ALL SELECT 'failed' UNION ALL SELECT 'dead_letter'
      UNION ALL SELECT 'cancelled')
