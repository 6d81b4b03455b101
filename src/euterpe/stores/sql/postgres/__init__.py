"""Postgres through asyncpg."""
