"""A client for Redis, its settings, and what an outage of it looks like."""
