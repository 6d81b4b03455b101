"""Django's tasks run as jobs, on Postgres and in a transaction, and are looked at through Django."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit


def test_tasks_of_django_run_as_jobs(fresh_postgres_url: str) -> None:
    url = urlsplit(fresh_postgres_url)
    database = {
        "ENGINE": "django.db.backends.postgresql", "NAME": url.path.strip("/"), "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""), "HOST": url.hostname, "PORT": url.port,
    }  # fmt: skip
    here = str(Path(__file__).parent)
    program = f"import sys; sys.path.insert(0, {here!r}); import django_tasks_app as app; app.main()"
    command = [sys.executable, "-c", program, json.dumps(database), fresh_postgres_url]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {
        "priority": 4,
        "rolled back": "TaskResultDoesNotExist",
        "other job": "TaskResultDoesNotExist",
        "no queue": "ImproperlyConfigured",
        "no option": "ImproperlyConfigured",
        "no json": "TypeError",
        "sum": ["SUCCESSFUL", 7, 1, 0],
        "again": ["SUCCESSFUL", "attempt 2", 2, 1],
        "never": ["FAILED", None, 1, 1],
        "trace": True,
    }
