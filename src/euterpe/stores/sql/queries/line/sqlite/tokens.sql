MAX(0, (r.burst * r.interval_us - MAX(0, r.full_at - {{now}})) / r.interval_us)
