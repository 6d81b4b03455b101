"""The command line of the benchmark; `bench/run` makes the project's environment and starts this."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import signal
import sys

import asyncpg
import uvloop

from bench.harness.catalogue import PEERS
from bench.harness.environments import EnvironmentFailed
from bench.harness.headline import HEADLINE_PEERS, HEADLINE_RATIOS, HEADLINE_SCENARIOS
from bench.harness.peer_process import PeerFailed
from bench.harness.plan import SCENARIO_NAMES, Choice, UnknownName, choose, make_plan, with_settings
from bench.harness.report import Run, describe_machine, now, write_report
from bench.harness.rounds import Outcome, Pace, run_rounds
from bench.harness.scenarios import Sizes, Stalled
from bench.harness.stores import NotDurable, open_stores
from bench.raw.registry import PROBES
from tests.servers import ServerFailed

QUICK = Sizes(jobs_scale=0.1, latency_s=3.0, idle_s=3.0, history_jobs=100_000)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/run", description="Measures job queues side by side.")
    names = ", ".join(subject.name for subject in PEERS)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME", help=f"only this; repeatable: {names}")
    parser.add_argument("--scenario", action="append", default=[], metavar="NAME", help=", ".join(SCENARIO_NAMES))
    parser.add_argument("--headline", action="store_true", help="the table of docs/performance.md, and nothing else")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (3)")
    parser.add_argument("--jobs", type=int, help="jobs a measurement, instead of the catalogue's")
    parser.add_argument("--attempts", type=int, default=1, help="measure again while others keep the machine busy")
    parser.add_argument("--patience", type=float, default=0.0, metavar="S", help="wait so long for a quiet machine")
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs, short waits, one round")
    parser.add_argument("--ratio", action="append", default=[], metavar="A:B", help="report A : B round by round")
    parser.add_argument("--set", action="append", default=[], metavar="PEER.KEY=VALUE", help="another setting")
    parser.add_argument("--setup", action="store_true", help="only make the environments")
    options = parser.parse_args(arguments)
    if options.headline:
        options.peer = options.peer or list(HEADLINE_PEERS)
        options.scenario = options.scenario or list(HEADLINE_SCENARIOS)
        options.ratio = options.ratio or list(HEADLINE_RATIOS)
    return options


def parse_ratio(text: str) -> tuple[str, str]:
    subject, colon, other = text.rpartition(":")
    if not colon or not subject or not other:
        raise UnknownName(f"--ratio {text!r} is not of the form A:B")
    return subject, other


def make_environments(choice: Choice) -> None:
    for environment in dict.fromkeys(subject.environment for subject in choice.subjects):
        print(f"environment {environment.name} ...", end="", flush=True, file=sys.stderr)
        print(" made" if environment.make() else " ready", file=sys.stderr)


def tell(outcome: Outcome) -> None:
    shown = outcome.error or ", ".join(f"{metric} {value:,.2f}" for metric, value in outcome.figures.items())
    name = f"[{outcome.round}] {outcome.scenario:15} {outcome.subject:42}"
    print(f"{name} {shown} (others: {outcome.others_cores:.1f} cores)", file=sys.stderr)


def end_on_signals() -> None:
    """So that an interrupted run stops its servers and peers in order, also where a shell made it ignore Ctrl-C."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def bench(options: argparse.Namespace, choice: Choice) -> int:
    end_on_signals()
    ratios = [parse_ratio(text) for text in options.ratio]
    sizes = QUICK if options.quick else Sizes(jobs=options.jobs)
    expected = (PeerFailed, Stalled, asyncpg.PostgresError)
    pace = Pace(1 if options.quick else options.rounds, expected, options.attempts, options.patience)
    started, machine = now(), describe_machine()
    with open_stores(choice.stores) as stores:
        servers = await stores.versions()
        outcomes = await run_rounds(make_plan(choice, stores, sizes), pace, tell)
    command = shlex.join(["bench/run", *sys.argv[1:]])
    run = Run(started, command, pace.rounds, machine, servers, choice, sizes, outcomes, ratios)
    path, markdown = write_report(run)
    print(markdown)
    print(f"written: {path} (and .json, .svg beside it)", file=sys.stderr)
    return 1 if any(outcome.error for outcome in outcomes) else 0


def main() -> int:
    options = parse(sys.argv[1:])
    try:
        choice = choose(with_settings(PEERS, options.set), PROBES, options.peer, options.scenario)
        make_environments(choice)
        return 0 if options.setup else uvloop.run(bench(options, choice))
    except asyncio.CancelledError:
        print("bench/run: interrupted; nothing was written", file=sys.stderr)
        return 130
    except (UnknownName, EnvironmentFailed, NotDurable, ServerFailed) as failure:
        print(f"bench/run: {failure}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
