"""A Django application that submits inside its own transactions: run as a program, it prints what it saw as JSON.

In a process of its own, since Django is configured once a process: `python -m tests.caller.django_app <database>
<queue url>`, where the database is the JSON of a Django DATABASES entry.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from typing import Any

import django
from django.conf import settings
from django.db import connection, connections, transaction

from euterpe.model.errors import InvalidInput, UnknownDependency
from euterpe.model.submitting.batch import Unit, drafts_of, new_ids
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.caller import join, target_of
from euterpe.stores.sql.engine import Engine
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.sqlite.engine import SqliteEngine
from euterpe.stores.sql.store import SqlStore
from euterpe.stores.sql.submitting.submit import submit_joined
from tests.caller.cancelling import Interrupted


def mail(**fields: Any) -> Unit:
    return Unit(drafts_of([Submission(type="mail", **fields)]))


def engine_of(url: str) -> Engine:
    return PostgresEngine(url) if url.startswith("postgres") else SqliteEngine(url)


def count(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table}")
        answer: int = cursor.fetchone()[0]
        return answer


def order(prefix: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {prefix}orders (name) VALUES (%s)", ["lamp"])


def errand(store: SqlStore, prefix: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    tables = [f"{prefix}inbox_jobs", f"{prefix}idempotency_keys", f"{prefix}orders"]
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {prefix}orders (name text)")

    with transaction.atomic():
        order(prefix)
        (first,) = store.submit_unit_on_sync(mail(idempotency_key="100 %s", tags={"percent": "5 %"}), connection)
    seen["committed"] = [count(table) for table in tables]

    try:
        with transaction.atomic():
            order(prefix)
            store.submit_unit_on_sync(mail(idempotency_key="other"), connections["default"])
            raise ZeroDivisionError
    except ZeroDivisionError:
        seen["rolled_back"] = [count(table) for table in tables]

    with transaction.atomic():
        (again,) = store.submit_unit_on_sync(mail(idempotency_key="100 %s", tags={"percent": "5 %"}), connection)
        seen["replayed"] = (again.replayed, again.job_id == first.job_id)

    with transaction.atomic():
        try:
            store.submit_unit_on_sync(mail(depends_on=(new_ids(1)[0],)), connection)
        except UnknownDependency:
            order(prefix)
        (child,) = store.submit_unit_on_sync(mail(depends_on=(first.job_id,)), connection)
        seen["child"] = child.state
    seen["after_a_rejection"] = [count(table) for table in tables]

    seen["interrupted"] = [interrupted(store, at, f"{prefix}orders", tables[:2]) for at in range(1, 6)]
    try:
        store.submit_unit_on_sync(mail(), connection)
    except InvalidInput as refused:
        seen["refused"] = str(refused)
    return seen


def interrupted(store: SqlStore, at: int, orders: str, ours: list[str]) -> str:
    """What became of an atomic block that went on after a Ctrl-C inside its submit."""
    before = [count(table) for table in ours], count(orders)
    target = target_of(store.engine)
    unit = mail(idempotency_key=f"interrupted {at}")
    try:
        with transaction.atomic():
            order(orders.removesuffix("orders"))
            joined = join(connection)
            series = joined.calls(lambda: submit_joined(unit, store.engine.family), target)
            joined.calls = lambda _make, _home: Interrupted(at, "after").calls(series)  # type: ignore[method-assign,assignment,return-value]
            with suppress(KeyboardInterrupt):
                joined.run_sync(lambda: iter(()), target)  # type: ignore[arg-type,return-value]
    except Exception:  # noqa: BLE001  # loud enough
        connection.close()
        return "loud" if before == ([count(table) for table in ours], count(orders)) else "half"
    new = [count(table) - old for table, old in zip(ours, before[0], strict=True)]
    return "whole" if new in ([0, 0], [1, 1]) and count(orders) == before[1] + 1 else "half"


def main() -> None:
    database, url = sys.argv[1:]
    settings.configure(DATABASES={"default": json.loads(database)}, USE_TZ=True)
    django.setup()
    engine = engine_of(url)
    asyncio.run(engine.migrate())
    prefix = f"{engine.schema}." if engine.schema else ""
    print(json.dumps(errand(SqlStore(engine), prefix)))


if __name__ == "__main__":
    main()
