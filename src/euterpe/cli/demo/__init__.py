"""`./run demo`: the whole system on a SQLite file, a worker killed in the middle, and what that run proved."""
