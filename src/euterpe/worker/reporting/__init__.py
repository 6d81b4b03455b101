"""What a worker and its attempts tell: the store, the log, the metrics."""
