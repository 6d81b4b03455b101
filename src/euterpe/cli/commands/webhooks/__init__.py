"""Keys, secrets and webhook events."""
