(CAST(:type AS text) IS NULL OR k.type = :type) AND (CAST(:type_prefix AS text) IS NULL OR starts_with(k.type, :type_prefix))
       AND (CAST(:queue AS text) IS NULL OR k.queue = :queue)
