(r.jobs > 1 OR r.was_longer)
