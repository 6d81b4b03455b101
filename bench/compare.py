"""Two source trees of Euterpe, measured in turn in one run: `python -m bench.compare OTHER_TREE`.

`OTHER_TREE` is another checkout, made by `git worktree add`. Both run in this repository's `.venv`, with the adapters
of this checkout. A round measures each thing once for either tree, and every other round begins with the other one:
a machine that drifts drifts for both.
Cells are medians; a ratio is taken inside a round, then the median of these: above 1 this tree needs less.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import psutil

from bench.harness.catalogue import OURS, OVER_HTTP, Subject
from bench.harness.environments import REPOSITORY, Environment
from bench.harness.scenarios import WARM_UP_JOBS, drain, idle_worker, submitting
from bench.harness.shapes import BULK, SHAPES, Shape
from bench.harness.stores import Stores, open_stores

POSTGRES, SQLITE = OURS[0], OURS[1]
EXCHANGE, SINGLE = OVER_HTTP
IMPORTS = 5
IMPORT = """
import json, resource, sys
import euterpe
euterpe.Queue
used = resource.getrusage(resource.RUSAGE_SELF)
ours = sum(name.partition(".")[0] == "euterpe" for name in sys.modules)
print(json.dumps({"cpu_ms": 1000 * (used.ru_utime + used.ru_stime), "modules": ours}))
"""
Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Measurement:
    name: str
    run: Callable[[Path, Stores, float], Awaitable[Figures]]


def of_tree(subject: Subject, tree: Path) -> Subject:
    return replace(subject, environment=Environment("repository", "euterpe", tree=tree))


def drained(
    subject: Subject, jobs: int, processes: int = 1, shape: Shape = BULK
) -> Callable[[Path, Stores, float], Awaitable[Figures]]:
    async def run(tree: Path, stores: Stores, scale: float) -> Figures:
        count = max(100, round(jobs * scale))
        found = await drain(of_tree(subject, tree), stores, count, processes, shape=shape)
        figures = {"us a job": 1e6 / found.rate, "worker CPU us a job": 1e6 * found.worker_cpu_s / found.jobs}
        if found.work is not None:
            figures["server CPU us a job"] = 1e6 * found.work.cpu_s / found.jobs
            figures["WAL bytes a job"] = found.work.wal_bytes / found.jobs
        return figures

    return run


def submitted(subject: Subject, jobs: int, do: str) -> Callable[[Path, Stores, float], Awaitable[Figures]]:
    async def run(tree: Path, stores: Stores, scale: float) -> Figures:
        count = max(100, round(jobs * scale))
        async with submitting(of_tree(subject, tree), stores) as (_, client):
            await client.call(do, jobs=WARM_UP_JOBS)
            before_s = client.cpu_s()
            answer = await client.call(do, jobs=count)
            cpu_s = client.cpu_s() - before_s
        return {"us a job": 1e6 * answer["seconds"] / count, "CPU us a job": 1e6 * cpu_s / count}

    return run


async def imported(tree: Path, _stores: Stores, _scale: float) -> Figures:
    found = [await asyncio.to_thread(_import_once, tree) for _ in range(IMPORTS)]
    return {"CPU ms": min(each["cpu_ms"] for each in found), "modules": found[0]["modules"]}


def _import_once(tree: Path) -> Figures:
    environ = {**os.environ, "PYTHONPATH": str(tree / "src")}
    done = subprocess.run([sys.executable, "-c", IMPORT], env=environ, capture_output=True, check=True)
    figures: Figures = json.loads(done.stdout)
    return figures


async def resident(tree: Path, stores: Stores, _scale: float) -> Figures:
    async with idle_worker(of_tree(SQLITE, tree), stores) as (_, worker, _):
        await asyncio.sleep(1.0)
        return {"RSS MB": worker.rss_bytes() / 1e6}


def shapes_on(subject: Subject, store: str) -> list[Measurement]:
    return [
        Measurement(f"drain {shape.name}, {store}", drained(shape.of(subject), shape.jobs // 4, shape=shape))
        for shape in SHAPES
    ]


MEASUREMENTS = (
    Measurement("drain x1, Postgres", drained(POSTGRES, 20_000)),
    Measurement("drain x2, Postgres", drained(POSTGRES, 20_000, 2)),
    Measurement("drain x1, SQLite", drained(SQLITE, 20_000)),
    Measurement("drain x2, SQLite", drained(SQLITE, 20_000, 2)),
    *shapes_on(POSTGRES, "Postgres"),
    *shapes_on(SQLITE, "SQLite"),
    Measurement("HTTP exchange", drained(EXCHANGE, 10_000)),
    Measurement("HTTP single", drained(SINGLE, 3_000)),
    Measurement("submit one, Postgres", submitted(POSTGRES, 1_000, "submit_one")),
    Measurement("submit one, SQLite", submitted(SQLITE, 1_000, "submit_one")),
    Measurement("submit bulk, Postgres", submitted(POSTGRES, 20_000, "submit_bulk")),
    Measurement("submit bulk, SQLite", submitted(SQLITE, 20_000, "submit_bulk")),
    Measurement("import Queue", imported),
    Measurement("idle worker, SQLite", resident),
)


async def compare(other: Path, rounds: int, scale: float, only: str) -> list[str]:
    found: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    with open_stores({"postgres", "sqlite"}) as stores:
        for number in range(rounds):
            for measurement in MEASUREMENTS:
                if only not in measurement.name:
                    continue
                trees = [(0, other), (1, REPOSITORY)]
                for which, tree in reversed(trees) if number % 2 else trees:
                    for unit, value in (await measurement.run(tree, stores, scale)).items():
                        found.setdefault((measurement.name, unit), ([], []))[which].append(value)
                print(f"round {number + 1}: {measurement.name}", file=sys.stderr, flush=True)
    return [row(name, unit, before, after) for (name, unit), (before, after) in found.items()]


def row(name: str, unit: str, before: list[float], after: list[float]) -> str:
    ratios = sorted(old / new if new else float("nan") for old, new in zip(before, after, strict=True))
    spread = f"({ratios[0]:.2f}-{ratios[-1]:.2f})" if len(ratios) > 1 else ""
    return f"{name:<24} {unit:<20} {median(before):>9.1f} {median(after):>9.1f} {median(ratios):>7.2f} {spread}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__.partition("\n")[0])
    parser.add_argument("other", type=Path, metavar="OTHER_TREE", help="another checkout of this repository")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the counts of jobs")
    parser.add_argument("--only", default="", metavar="TEXT", help="only measurements whose names contain this")
    options = parser.parse_args()
    rows = asyncio.run(compare(options.other.resolve(), options.rounds, options.scale, options.only))
    load = ", ".join(f"{each:.1f}" for each in psutil.getloadavg())
    print(f"{options.rounds} rounds, load at the end {load}")
    print(f"{'':<24} {'':<20} {'other':>9} {'this':>9} {'ratio':>7}")
    print(*rows, sep="\n")


if __name__ == "__main__":
    main()
