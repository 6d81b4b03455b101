"""What operators see of a running system: logs, metrics and traces."""
