"""Webhook events under the same ownership protocol as jobs."""
