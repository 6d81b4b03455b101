"""The line of what is ready (Postgres): no job is lost in it, whatever claims, settles and operators do at once."""
