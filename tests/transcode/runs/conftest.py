"""A store on every SQL engine, with the time in the test's hand."""

from __future__ import annotations

from tests.conformance.conftest import migrated_postgres_url, sqlite_template
from tests.transcode.credentials.conftest import clock, engine_name, jobs, opened, place

__all__ = ["clock", "engine_name", "jobs", "migrated_postgres_url", "opened", "place", "sqlite_template"]
