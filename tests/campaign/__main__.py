"""`python -m tests.campaign --engine postgres --minutes 5 --jobs 1500 --seed 7`: exit 1 if a promise was broken."""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.campaign.conductor import Campaign, Settings
from tests.campaign.lists.conductor import ListCampaign, ListCampaignSettings
from tests.campaign.place import opened
from tests.campaign.plan import EVERY_KIND, ON_LISTS, Engine
from tests.campaign.verdicts import Verdict
from tests.faults.crew import Crew
from tests.outbox.receiver import receiving
from tests.redis_lists.private_server import ConfiguredRedis


async def run(engine: Engine, settings: Settings, folder: Path) -> list[Verdict]:
    crew = Crew(folder)
    try:
        async with opened(engine, folder, streams=settings.streams) as place, receiving() as receiver:
            campaign = Campaign(settings, place, receiver, crew, folder)
            try:
                found = await campaign.run()
            finally:
                for role in getattr(campaign, "roles", []):
                    if role.process is not None:
                        role.process.kill()
                        role.process.wait()
            jobs = next(v.looked_at for v in found if v.promise == "one end a job")
            moves = next(v.looked_at for v in found if v.promise == "every move is in the table")
            print(
                f"{engine}, seed {settings.seed}: {jobs} jobs, {sum(campaign.done.values())} faults"
                f" ({', '.join(f'{n} {kind}' for kind, n in sorted(campaign.done.items()))}), {moves} moves,"
                f" {len(receiver.got)} deliveries; drained {campaign.drained_s:.0f} s after the last fault,"
                f" longest wait {campaign.waits.longest_s:.1f} s,"
                f" beside a dead store at most {max(campaign.dead_store.took_s, default=0.0):.1f} s"
            )
            return found
    finally:
        crew.dismiss()


async def run_on_lists(settings: ListCampaignSettings, folder: Path) -> list[Verdict]:
    """With Redis' own append-only file: without one, a kill of Redis is meant to lose everything."""
    crew = Crew(folder)
    try:
        with ConfiguredRedis(appendonly="yes", appendfsync=settings.fsync) as server:
            campaign = ListCampaign(settings, server, crew, folder)
            try:
                found = await campaign.run()
            finally:
                for role in campaign.roles:
                    if role.process is not None:
                        role.process.kill()
                        role.process.wait()
            jobs = next(v.looked_at for v in found if v.promise == "every job has ended")
            kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(campaign.done.items()))
            total = sum(campaign.done.values())
            print(f"redis, fsync {settings.fsync}, seed {settings.seed}: {jobs} jobs, {total} faults ({kinds})")
            return found
    finally:
        crew.dismiss()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--engine", choices=["sqlite", "postgres", "redis"], default="sqlite")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--jobs", type=int, default=1000, help="how many jobs are submitted, beside those they spawn")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long faults are injected")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="keep logs and journals even if every promise was kept")
    parser.add_argument("--transport", choices=["streams", "none"], default="streams", help="what carries wake-ups")
    every_kind = dict.fromkeys((*EVERY_KIND, *ON_LISTS))
    kinds = f"only these kinds, each at least once: {', '.join(every_kind)}"
    parser.add_argument("--faults", default="", metavar="A,B", help=kinds)
    parser.add_argument(
        "--fsync", choices=["always", "everysec"], default="always", help="of the Redis of --engine redis"
    )
    parser.add_argument(
        "--slack", type=float, default=0.0, help="seconds that a recovery may be late on a busy machine"
    )
    said = parser.parse_args()
    only = tuple(filter(None, said.faults.split(",")))
    if set(only) - set(every_kind):
        parser.error(f"no such fault: {', '.join(sorted(set(only) - set(every_kind)))}")
    folder = Path(tempfile.mkdtemp(prefix="euterpe-campaign-"))
    print(f"seed {said.seed}; logs in {folder}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the fleet ends with us
    streams = said.transport == "streams"
    if said.engine == "redis":
        lists = ListCampaignSettings(
            said.seed, said.jobs, said.minutes * 60, said.workers, only, said.fsync, said.slack
        )
        found = asyncio.run(run_on_lists(lists, folder))
    else:
        settings = Settings(said.seed, said.jobs, said.minutes * 60, said.workers, streams, only, said.slack)
        found = asyncio.run(run(said.engine, settings, folder))
    for verdict in found:
        print(verdict)
    broken = sum(1 for verdict in found if verdict.broken)
    print(f"BROKEN: {broken} of {len(found)} promises" if broken else f"KEPT: all {len(found)} promises")
    if not broken and not said.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
