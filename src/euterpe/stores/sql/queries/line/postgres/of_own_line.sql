l.key = k.key AND l.queue = k.queue AND l.type = k.type AND l.priority = k.priority
