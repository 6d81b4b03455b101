r.queue = k.queue AND r.type = k.type AND r.priority = k.priority
