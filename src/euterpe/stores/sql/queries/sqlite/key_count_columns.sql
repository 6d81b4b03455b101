k.name, k.running, k.has_rate
