"""Where handlers run: threads and processes."""
