"""`mypy --strict` on a user's file knows the handler's arguments at `.submit` and the type of its result.

Every line that ends in `# error: ...` must be refused with these words, and no other line may be.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

APP = """
import asyncio
from datetime import datetime

import euterpe

queue = euterpe.Queue("sqlite:///jobs.db")


@queue.job("report.render", priority="high", max_attempts=5, timeout="10m")
async def render(ctx: euterpe.Context, report_id: int, title: str = "") -> dict[str, int]:
    await ctx.progress(40, "half")
    await ctx.checkpoint({"page": 1})
    child: str = await ctx.spawn(shrink.with_args(report_id))
    return {"pages": len(child)}


@queue.job("report.shrink", process=True)
def shrink(ctx: euterpe.Context, report_id: int) -> bytes:
    ctx.progress(10).wait()
    return b""


@queue.job
async def plain(day: datetime) -> str:
    return day.isoformat()


@queue.cron("0 3 * * *", tz="Europe/Berlin", priority="bulk")
async def nightly(ctx: euterpe.Context, keep: int = 7) -> None: ...
"""

GOOD = """
async def main() -> None:
    async with queue:
        job = await render.submit(report_id=7, title="Sales")
        pages: dict[str, int] = await job.result(timeout="30s")
        small: bytes = await (await shrink.submit(7)).result()
        text: str = await (await plain.submit(day=datetime.now())).result()
        await nightly.submit()
        later = await render.options(delay="5m", idempotency_key="r7").submit(report_id=7)
        also: dict[str, int] = await later.result()
        by_name = await queue.submit("report.render", {"report_id": 7}, priority="bulk", tags={"team": "a"})
        call: euterpe.Call[dict[str, int]] = render.with_args(report_id=7)
        again: dict[str, int] = await (await queue.submit(call, delay=None)).result()
        jobs = await queue.submit_many([render.with_args(report_id=i) for i in range(10)])
        async with queue.workflow() as flow:
            a = flow.add(render, report_id=7)
            b = flow.add(shrink.with_args(report_id=7), after=[a])
        done: bytes = await b.result("1m")
        await queue.chain([render.with_args(1), shrink.with_args(1)])
        state: euterpe.State = await queue.cancel(jobs[0].id)
        info: euterpe.Job = await queue.get(by_name.id)
        print(pages, small, text, also, again, done, state, info.result)
        when: datetime = info.created_at if info.started_at is None else info.started_at
        code: str | None = None if info.error is None else info.error.code
        percent: float = 0.0 if info.progress is None else info.progress.percent
        page: euterpe.Page = await queue.search(state=euterpe.State.FAILED, tag=("team", "a"), limit=10)
        found: list[euterpe.Job] = page.jobs
        tries: list[euterpe.Attempt] = await queue.attempts(info.id)
        counts: euterpe.Stats = await queue.stats()
        changed: euterpe.Job = await queue.update(info.id, priority="high", tags=None)
        retried: euterpe.JobHandle[dict[str, int]] = await job.retry()
        fresh: euterpe.Job = await job.refresh()
        told: euterpe.Progress | None = await job.progress()
        stopped: euterpe.State = await job.cancel(force=True)
        options: euterpe.WorkerOptions = {"queues": ["mail"], "lease": "30s"}
        async with queue.worker(20, **options) as worker:
            attempts: list[euterpe.RunningAttempt] = worker.running
            await worker.stop(at_once=True)
        await queue.work(concurrency=10, poll="1s")
        print(when, code, percent, found, tries, counts, changed, retried, fresh, told, stopped, attempts)


handle: euterpe.JobHandle[bytes] = queue.sync.submit(shrink.with_args(report_id=7))
answer: bytes = queue.sync.result(handle)
asyncio.run(main())
"""

BAD = """
async def main() -> None:
    await render.submit(report="seven")  # error: Unexpected keyword argument "report"
    await render.submit(report_id="seven")  # error: has incompatible type "str"; expected "int"
    await render.submit()  # error: Missing positional argument "report_id"
    await render.submit(7, "t", 9)  # error: Too many arguments
    render.with_args(report_id=None)  # error: has incompatible type "None"; expected "int"
    await shrink.submit("7")  # error: has incompatible type "str"; expected "int"
    await plain.submit(day="monday")  # error: has incompatible type "str"; expected "datetime"
    await nightly.submit(keep="all")  # error: has incompatible type "str"; expected "int"
    await render.options(colour="red").submit(7)  # error: Unexpected keyword argument "colour"
    await render.options(priority="high").submit("7")  # error: has incompatible type "str"; expected "int"
    await queue.submit("report.render", {}, dealy="5m")  # error: Unexpected keyword argument "dealy"
    await queue.submit("report.render", {}, max_attempts="5")  # error: No overload variant of "submit"
    job = await render.submit(7)
    wrong: str = await job.result()  # error: expression has type "dict[str, int]", variable has type "str"
    await queue.search(colour="red")  # error: Unexpected keyword argument "colour"
    await queue.search(limit="all")  # error: has incompatible type "str"; expected "int"
    await queue.update(job.id, payload={})  # error: Unexpected keyword argument "payload"
    await queue.work(keeper=False)  # error: Unexpected keyword argument "keeper"
    queue.worker(lease=None)  # error: incompatible type "None"
    queue.store.claim()  # error: "Queue" has no attribute "store"
    (await queue.get(job.id)).tags_json  # error: "Job" has no attribute "tags_json"
    flow = queue.workflow()
    node = flow.add(shrink.with_args(7))
    also_wrong: int = await node.result()  # error: expression has type "bytes", variable has type "int"


queue.job("x", max_attempt=5)  # error: "max_attempt"
bad: int = queue.sync.result(queue.sync.submit(shrink.with_args(7)))  # error: "int"
"""


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, str]]]:
    """One run of mypy over both files: by file, (line, message)."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "good.py").write_text(APP + GOOD)
    (folder / "bad.py").write_text(APP + BAD)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--no-pretty", "--follow-imports=silent"]
    command += ["--config-file=", f"--cache-dir={ROOT / '.mypy_cache' / 'of-the-typing-test'}", "good.py", "bad.py"]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert answer.stderr == ""
    found: dict[str, list[tuple[int, str]]] = {"good.py": [], "bad.py": []}
    for line in answer.stdout.splitlines():
        place = re.match(r"(good\.py|bad\.py):(\d+): error: (.*)", line)
        if place:
            found[place.group(1)].append((int(place.group(2)), place.group(3)))
        else:
            assert ": note: " in line, line
    return found


def test_a_correct_file_passes(complaints: dict[str, list[tuple[int, str]]]) -> None:
    assert complaints["good.py"] == []


def test_every_wrong_line_is_refused_with_its_reason_and_no_other(
    complaints: dict[str, list[tuple[int, str]]],
) -> None:
    expected = {
        number: line.partition("# error: ")[2]
        for number, line in enumerate((APP + BAD).splitlines(), 1)
        if "# error: " in line
    }
    said: dict[int, str] = {}
    for number, message in complaints["bad.py"]:
        said[number] = said.get(number, "") + message
    assert set(said) == set(expected)
    for number, words in expected.items():
        assert words in said[number], f"line {number}: {said[number]}"
