"""Requesters, their API keys and their webhook secrets."""
