"""A worker's exchange: settle what ended and claim what is next. The full path, and a fast path for each usual case."""
