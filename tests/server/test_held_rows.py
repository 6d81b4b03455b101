"""Somebody holds the row of a job that an HTTP worker reports: the worker is told to report again, and may."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest

from euterpe.model.state import State
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.postgres.engine import split_url
from tests.server.plane import Plane, claim_one, lease_of

COMPLETE = "/internal/worker/complete"


@pytest.fixture
def url(fresh_postgres_url: str) -> str:
    """Only Postgres has row locks."""
    return fresh_postgres_url


@pytest.fixture
def holder(url: str, plane: Plane) -> Iterator[psycopg.Connection[Any]]:
    dsn, options = split_url(url)
    with psycopg.connect(dsn, options=f"-c search_path={options['schema']}") as connection:
        yield connection


async def test_a_report_about_a_held_row_is_answered_503_and_accepted_when_it_is_repeated(
    plane: Plane, client: httpx.AsyncClient, holder: psycopg.Connection[Any]
) -> None:
    await plane.store.submit_many([Submission(type="t", requester_id="vesta") for _ in range(2)])
    held, neighbour = await claim_one(client), await claim_one(client)
    holder.execute("SELECT 1 FROM inbox_jobs WHERE id = %s FOR UPDATE", [held["job_id"]])
    reports = [lease_of(job) | {"result": {"n": 1}} for job in (held, neighbour)]
    refused, accepted = await asyncio.gather(*(client.post(COMPLETE, json=report) for report in reports))
    assert accepted.status_code == 200, accepted.text
    assert refused.status_code == 503, refused.text
    assert (await plane.store.get(held["job_id"])).state is State.RUNNING

    holder.rollback()
    for _ in range(2):  # a repeat of what was accepted is accepted too
        repeated = await client.post(COMPLETE, json=reports[0])
        assert repeated.status_code == 200, repeated.text
    for job in (held, neighbour):
        assert (await plane.store.get(job["job_id"])).state is State.COMPLETED
        assert [a.outcome for a in await plane.store.attempts(job["job_id"])] == ["completed"]
