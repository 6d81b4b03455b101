"""Sweeps in every worker, jittered, without a leader: each is a compare-and-set, so two at once do no harm."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any, Final

from euterpe.model.errors import EuterpeError

log = logging.getLogger("euterpe.sweep")

PROMOTE_S: Final = 1.0
RECOVER_S: Final = 3.0
TIDY_S: Final = 300.0


async def sweep_forever(store: Any, wakeups: Any, telemetry: Any = None) -> None:
    """Promote due jobs on time, recover lost ones soon, tidy up now and then."""
    loop = asyncio.get_running_loop()
    recover_at = loop.time()
    tidy_at = loop.time() + TIDY_S * random.random()
    while True:
        pause = PROMOTE_S * random.uniform(0.75, 1.25)
        try:
            promoted = await store.sweeps.promote()
            if promoted:
                wakeups.announce(promoted)
            due_us = await store.sweeps.next_due_in_us()
            if due_us is not None:
                pause = min(pause, due_us / 1e6)
            if loop.time() >= recover_at:
                recover_at = loop.time() + RECOVER_S * random.uniform(0.75, 1.25)
                recovered = await store.sweeps.recover()
                if recovered.reclaimed and telemetry is not None:
                    telemetry.reclaimed(recovered.reclaimed)
                if recovered.reclaimed:
                    log.warning("%d jobs lost their worker and were taken back", recovered.reclaimed)
            if loop.time() >= tidy_at:
                tidy_at = loop.time() + TIDY_S * random.uniform(0.75, 1.25)
                await store.sweeps.prune()
                await store.sweeps.expire_keys()
        except EuterpeError as error:
            log.info("a sweep is put off", exc_info=error)
            pause = max(pause, 1.0)
        await asyncio.sleep(max(pause, 0.001))
