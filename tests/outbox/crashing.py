"""A dispatcher that kills itself at a named point: `python -m tests.outbox.crashing URL SECRET POINT AFTER`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from euterpe.backends.engines import connect
from euterpe.egress.client import Egress, EgressReply
from euterpe.egress.target import EgressPolicy
from euterpe.webhook.dispatcher import Dispatcher, DispatcherSettings


async def main(url: str, secret: str, point: str, after: int) -> None:
    backend = connect(url)
    await backend.open()
    left = after

    def die() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    class Fragile(Egress):
        async def post(self, *args: Any, **kwargs: Any) -> EgressReply:
            if point == "before_send":
                die()
            reply = await super().post(*args, **kwargs)
            if point == "after_send":
                die()
            return reply

    class FragileOutbox:
        def __getattr__(self, name: str) -> Any:
            return getattr(backend.store.outbox, name)

        async def settle(self, deliveries: Sequence[Any]) -> set[str]:
            if point == "before_settle":
                die()
            accepted = await backend.store.outbox.settle(deliveries)
            if point == "after_settle":
                die()
            return accepted

    async def secrets_of(_requester: str) -> list[str]:
        return [secret]

    settings = DispatcherSettings(worker_id="fragile", poll_min_s=0.02, poll_max_s=0.05, lease_ttl_us=500_000)
    outbox: Any = FragileOutbox()
    async with Fragile(EgressPolicy(allow_loopback=True)) as egress:
        await Dispatcher(outbox, egress, secrets_of, settings, wakeups=backend.wakeups).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
