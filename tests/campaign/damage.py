"""Faults of everything but our own processes: the database, the network, the receiver."""

from __future__ import annotations

import asyncio

from tests.campaign.place import Place
from tests.campaign.plan import Fault
from tests.outbox.receiver import NO_CONTENT, Got, Receiver, answer


class Damage:
    def __init__(self, place: Place, receiver: Receiver) -> None:
        self._place = place
        self._receiver = receiver

    async def do(self, fault: Fault) -> None:
        match fault.kind:
            case "receiver_refuses":
                await self._receive(lambda _got: answer(500), fault.lasts_s)
            case "receiver_hangs":
                await self._receive(lambda _got: None, fault.lasts_s)
            case "receiver_redirects":
                await self._receive(lambda _got: answer(307, "location: http://169.254.169.254/\r\n"), fault.lasts_s)
            case "operator_transaction":
                await asyncio.to_thread(self._place.keep_transaction_open, 3 * fault.lasts_s)
            case "hold_lock":
                await asyncio.to_thread(self._place.hold_lock, fault.lasts_s)
            case "terminate_backends":
                await asyncio.to_thread(self._place.server.terminate_backends)
            case "restart_database":
                await asyncio.to_thread(self._place.server.restart, immediate=True)
            case "cut_network":
                self._place.cut()
            case "swallow_packets":
                self._place.proxy.freeze()
                await asyncio.sleep(fault.lasts_s)
                self._place.proxy.thaw()
            case "read_only":
                await self._setting("default_transaction_read_only", "on", fault.lasts_s)
            case "lock_timeout":
                self._place.set_default("lock_timeout", "1ms")
                try:
                    await asyncio.to_thread(self._place.hold_lock, fault.lasts_s)
                finally:
                    self._place.set_default("lock_timeout", None)
            case unknown:
                raise LookupError(unknown)

    async def _receive(self, reply: object, lasts_s: float) -> None:
        self._receiver.reply = reply  # type: ignore[assignment]  # one of the lambdas above
        await asyncio.sleep(lasts_s)
        self._receiver.reply = _accept

    async def _setting(self, name: str, value: str, lasts_s: float) -> None:
        self._place.set_default(name, value)
        try:
            await asyncio.sleep(lasts_s)
        finally:
            self._place.set_default(name, None)


def _accept(_got: Got) -> bytes:
    return NO_CONTENT
