"""Django's tasks on a queue, as a program of its own: prints what it saw as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import django
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, transaction

import euterpe

database, url = sys.argv[1:]
BACKEND = "euterpe.django.EuterpeBackend"
PLACE = f"{__name__}.queue"
settings.configure(
    DATABASES={"default": json.loads(database)},
    USE_TZ=True,
    TASKS={
        "default": {"BACKEND": BACKEND, "OPTIONS": {"queue": PLACE, "database": "default"}},
        "nowhere": {"BACKEND": BACKEND, "OPTIONS": {"queue": "json.dumps"}},
        "without": {"BACKEND": BACKEND},
    },
)
django.setup()

from euterpe.django import run_tasks  # noqa: E402  # Django has to be set up before

if django.VERSION >= (6,):
    from django.tasks import task, task_backends
    from django.tasks.exceptions import TaskResultDoesNotExist
else:
    from django_tasks import task, task_backends
    from django_tasks.exceptions import TaskResultDoesNotExist

queue = euterpe.Queue(url)
run_tasks(queue, max_attempts=2, backoff={"strategy": "constant", "initial": "1ms"})


@task  # type: ignore[untyped-decorator]  # Django has no types
def add(a: int, b: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s + %s", [a, b])
        found: int = cursor.fetchone()[0]
        return found


@task(takes_context=True)  # type: ignore[untyped-decorator]
def fails_once(context: Any) -> str:
    if context.attempt == 1:
        raise ConnectionError("not yet")
    return f"attempt {context.attempt}"


@task(priority=-100)  # type: ignore[untyped-decorator]
async def always_fails() -> None:
    raise euterpe.PermanentError("never")


async def work(ids: list[str]) -> None:
    async with queue, queue.worker():
        for job_id in ids:
            while not (await queue.get(job_id)).is_ended:  # noqa: ASYNC110  # as another process would
                await asyncio.sleep(0.02)


def refusal(act: Any) -> str:
    try:
        act()
    except (ImproperlyConfigured, TypeError, TaskResultDoesNotExist) as error:
        return type(error).__name__
    return "accepted"


def main() -> None:
    queue.sync.stats()
    with transaction.atomic():
        sums = [add.enqueue(1, b=2)]
        hidden = add.enqueue(5, 5)
        transaction.set_rollback(True)
    sums = [add.enqueue(3, b=4)]
    again, never = fails_once.enqueue(), always_fails.enqueue()
    plain = queue.sync.submit("other", {}, delay="1h").id
    seen: dict[str, Any] = {
        "priority": queue.sync.get(never.id).priority,
        "rolled back": refusal(lambda: add.get_result(hidden.id)),
        "other job": refusal(lambda: add.get_result(plain)),
        "no queue": refusal(lambda: task_backends["nowhere"].enqueue(add, (1, 2), {})),
        "no option": refusal(lambda: task_backends["without"]),
        "no json": refusal(lambda: add.enqueue(object(), 2)),
    }
    queue.sync.close()
    asyncio.run(work([sums[0].id, again.id, never.id]))
    for name, result in {"sum": sums[0], "again": again, "never": never}.items():
        result.refresh()
        value = result.return_value if result.status == "SUCCESSFUL" else None
        seen[name] = [str(result.status), value, result.attempts, len(result.errors)]
    seen["trace"] = "never" in never.errors[0].traceback
    print(json.dumps(seen))
