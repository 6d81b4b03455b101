"""Storing jobs: plans, idempotency and unique keys, uniform batches, group commit."""
