(SELECT * FROM inbox_jobs AS w
             WHERE cardinality(CAST(:states AS text[])) > 1 AND w.seq < :before AND w.seq >= :down_to AND {{search_filters}}
             ORDER BY w.seq DESC LIMIT :limit)
            UNION ALL
            (SELECT * FROM inbox_jobs AS w
             WHERE w.listed IS NOT NULL AND (w.listed, w.seq) < ({{one_state}}, :before) AND (w.listed, w.seq) >= ({{one_state}}, :down_to)
              AND {{search_filters}}
             ORDER BY w.listed DESC, w.seq DESC LIMIT :limit)
            UNION ALL
            (SELECT * FROM inbox_jobs AS w
             WHERE {{one_state}} = 'running' AND w.seq = ANY (ARRAY({{running_seqs}})) AND w.lease_expires_at IS NOT NULL
              AND w.seq < :before AND w.seq >= :down_to AND {{search_filters}}
             ORDER BY w.seq DESC LIMIT :limit)
            UNION ALL
            (SELECT * FROM inbox_jobs AS w
             WHERE {{one_state}} = 'scheduled' AND w.seq = ANY (ARRAY({{waiting_between}})) AND w.state = 'scheduled' AND {{search_filters}}
             ORDER BY w.seq DESC LIMIT :limit)
            UNION ALL
            (SELECT * FROM inbox_jobs AS w
             WHERE {{one_state}} = 'completed' AND w.state = 'completed' AND w.seq < :before AND w.seq >= :down_to AND {{search_filters}}
             ORDER BY w.seq DESC LIMIT :limit)
