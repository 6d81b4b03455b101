"""Outbox events: their names, their bodies, their deliveries."""
