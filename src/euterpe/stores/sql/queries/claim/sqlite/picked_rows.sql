MIN(is_quiet), CASE WHEN COUNT(kind) = COUNT(*) THEN json_group_array(id) END,
       CASE WHEN COUNT(kind) = COUNT(*) THEN group_concat(small_payload, ',') END,
       CASE WHEN COUNT(kind) < COUNT(*) THEN NULL WHEN MIN(kind) = MAX(kind) THEN '[' || MIN(kind) || ']'
            ELSE '[' || group_concat(kind, ',') || ']' END,
       group_concat(keyed, ',')
