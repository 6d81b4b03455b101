"""The dispatcher: takes due events, sends them signed, and settles them, under the same protocol as jobs.

A crash anywhere means that the receiver may see an event twice, never zero times, and always with the same id and body:
the row is settled only after the answer, and its lease runs out when nobody renews it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Protocol

import msgspec

from euterpe.egress.client import Egress
from euterpe.egress.errors import EgressError
from euterpe.model.claims.exchange import LEASE_TTL_US
from euterpe.model.errors import EuterpeError, StoreUnavailable
from euterpe.model.events.outbox import Delivery, OutboxEvent
from euterpe.model.failures.backoff import SECOND_US
from euterpe.model.failures.circuit_breaker import BreakerPolicy
from euterpe.ports import OUTBOX_CHANNEL, OutboxStore, Wakeups
from euterpe.runtime.outage import Outage
from euterpe.runtime.shutdown import WRITE_S
from euterpe.webhook.endpoints import Admission, Endpoints
from euterpe.webhook.failure_logging import report_failure
from euterpe.webhook.fairness import FairClaims
from euterpe.webhook.policy import DeliveryPolicy, given_back, is_left_to_others, result_of
from euterpe.webhook.prefetched import HELD_AT_MOST_S, Prefetched
from euterpe.webhook.signing import new_nonce, sign

log = logging.getLogger("euterpe.outbox")

BATCH_CEILING: Final = 25
SecretsOf = Callable[[str], Awaitable[Sequence[str]]]
"""The active webhook secrets of a requester, newest first; raises when they cannot be read now."""


class OutboxTelemetry(Protocol):
    def outbox_attempts(self, outcome: str, count: int = 1) -> None: ...
    def outbox_dead_lettered(self, count: int = 1) -> None: ...


class DispatcherSettings(msgspec.Struct, frozen=True, kw_only=True):
    """000 section 12: poll 0.5 to 1.5 s, 10 events a claim (at most 25), 5 sends at a time."""

    worker_id: str
    poll_min_s: float = 0.5
    poll_max_s: float = 1.5
    batch: int = 10
    concurrency: int = 5
    max_attempts: int = 12
    deadline_s: float = 15.0
    lease_ttl_us: int = LEASE_TTL_US
    grace_s: float = 20.0


class Dispatcher:
    """Runs in every worker, or as a role of its own; any number of them share the outbox."""

    def __init__(
        self,
        outbox: OutboxStore,
        egress: Egress,
        secrets_of: SecretsOf,
        settings: DispatcherSettings,
        *,
        wakeups: Wakeups | None = None,
        telemetry: OutboxTelemetry | None = None,
        breaker: BreakerPolicy | None = None,
        policy: DeliveryPolicy | None = None,
    ) -> None:
        self._outbox = outbox
        self._egress = egress
        self._secrets_of = secrets_of
        self._settings = settings
        self._wakeups = wakeups
        self._telemetry = telemetry
        self._policy = policy or DeliveryPolicy(settings.max_attempts, random.Random())
        self._endpoints = Endpoints(
            settings.concurrency, breaker or BreakerPolicy(), lambda: time.monotonic_ns() // 1000
        )
        self._claims = FairClaims(outbox, self._endpoints, settings.worker_id, settings.lease_ttl_us)
        self._in_flight: dict[str, OutboxEvent] = {}
        """Claimed, and not over: what is being sent and what waits for a slot."""
        self._prefetched = Prefetched(time.monotonic)
        self._sending = 0
        self._may_be_more = False
        """Whether the last claim got all that it asked for."""
        self._done: list[Delivery] = []
        self._stopping = False
        self._news = asyncio.Event()
        self._should_claim = True
        self._sends: set[asyncio.Task[None]] = set()
        self._outage = Outage(log, "the dispatcher")
        self._leave_at: float | None = None
        self._time_limit: asyncio.Timeout | None = None

    async def run(self) -> None:
        """Until `stop`: then what is under way may finish within the grace time, and the rest is given back."""
        unsubscribe = self._wakeups.subscribe(self._wake, [OUTBOX_CHANNEL]) if self._wakeups is not None else None
        renewing = asyncio.get_running_loop().create_task(self._renew_leases())
        try:
            async with asyncio.timeout_at(self._leave_at) as self._time_limit:
                while not (self._stopping and not self._in_flight and not self._done):
                    await self._run_once()
        except TimeoutError:
            log.error("%d deliveries could not be settled in time; their events are sent again", len(self._done))
        finally:
            self._time_limit = None
            renewing.cancel()
            if unsubscribe is not None:
                unsubscribe()
            for send in self._sends:
                send.cancel()

    def stop(self, grace_s: float | None = None) -> None:
        """Claim nothing more; a second call gives back at once what is still under way.

        `grace_s`: how long it may go on, where less is left of the grace time than the settings say."""
        if self._stopping:
            grace_s = 0.0
            self._give_all_back()
        self._stopping = True
        self._give_back(self._prefetched.beyond(0))
        left_s = self._settings.grace_s if grace_s is None else min(grace_s, self._settings.grace_s)
        loop = asyncio.get_running_loop()
        self._leave_at = loop.time() + left_s + WRITE_S
        if self._time_limit is not None and not self._time_limit.expired():
            self._time_limit.reschedule(self._leave_at)
        loop.call_later(max(0.0, left_s), self._give_all_back)
        self._wake()

    def _wake(self) -> None:
        self._should_claim = True
        self._news.set()

    @property
    def _free(self) -> int:
        return self._settings.concurrency - self._sending

    @property
    def _batch(self) -> int:
        return min(self._settings.batch, BATCH_CEILING)

    async def _run_once(self) -> None:
        """Settle what is done, claim a batch when a slot is free, or wait for news."""
        self._give_back(self._prefetched.overdue())
        is_wanted = self._should_claim and not self._stopping and self._free > 0
        want = max(1, self._batch - len(self._prefetched)) if is_wanted else 0
        if not self._done and want <= 0:
            await self._wait()
            return
        try:
            if self._done:
                await self._settle()
            if want > 0:
                await self._claim(want)
        except Exception as error:  # noqa: BLE001  # no refused statement ends the dispatcher
            self._should_claim = True
            await self._back_off(error)
        else:
            self._outage.over()

    async def _back_off(self, error: Exception) -> None:
        await asyncio.sleep(self._outage.pause_after(error, len(self._done)))

    async def _wait(self) -> None:
        pause = random.uniform(self._settings.poll_min_s, self._settings.poll_max_s)
        loop = asyncio.get_running_loop()
        alarms = [loop.call_later(pause, self._wake)]
        if self._prefetched:
            alarms.append(loop.call_later(HELD_AT_MOST_S, self._news.set))
        try:
            await self._news.wait()
            self._news.clear()
        finally:
            for alarm in alarms:
                alarm.cancel()

    async def _claim(self, want: int) -> None:
        self._should_claim = False
        events = await self._claims.claim(want, self._prefetched.receivers())
        for event in events:
            if (spent := self._policy.of_spent(event)) is not None:
                self._done.append(spent)
            else:
                self._in_flight[event.id] = event
                self._prefetched.add(event)
        if self._stopping:
            self._give_back(self._prefetched.beyond(0))
        sent = self._send_prefetched()
        self._give_back(self._prefetched.beyond(self._batch))
        self._may_be_more = len(events) == want
        # Where nothing could be sent, more of the same would be claimed and given back over and over.
        self._should_claim = self._should_claim or (sent > 0 and self._may_be_more)

    def _send_prefetched(self, *, before_a_claim: bool = False) -> int:
        """Send what may be sent now; returns how many. Before a claim, which may bring events of others, those who
        come after others leave the slot to it."""
        if not self._prefetched or self._free <= 0:
            return 0
        sent = 0
        last = self._endpoints.after_others()
        for event in self._prefetched.in_turn(last):
            if self._free <= 0 or (before_a_claim and event.requester_id in last):
                break
            if self._in_flight.get(event.id) is not event:  # Its lease was lost.
                self._prefetched.remove(event)
                continue
            admission = self._endpoints.admit(event.receiver)
            if admission is not None:
                self._prefetched.remove(event)
                self._begin(event, admission)
                sent += 1
            elif not self._endpoints.may_be_waited_for(event.receiver):
                self._prefetched.remove(event)
                self._give_back([event])
        return sent

    def _begin(self, event: OutboxEvent, admission: Admission) -> None:
        self._sending += 1
        task = asyncio.get_running_loop().create_task(self._send(event, admission))
        self._sends.add(task)
        task.add_done_callback(self._sends.discard)

    async def _send(self, event: OutboxEvent, admission: Admission) -> None:
        started = time.monotonic()
        succeeded = False
        try:
            delivery = await self._deliver(event)
            succeeded = delivery.state == "completed"
        except Exception as error:
            log.error("the dispatcher failed to send an event", extra={"event_id": event.id}, exc_info=error)
            delivery = self._policy.of_own_failure(event, f"the dispatcher failed: {type(error).__name__}")
        finally:
            self._sending -= 1
            self._endpoints.done(admission, succeeded=succeeded, took_s=time.monotonic() - started)
        if not succeeded:
            report_failure(event, delivery)
            if is_left_to_others(delivery):
                self._endpoints.forbid(event.receiver)
        self._over(event, delivery)
        if not self._stopping:
            self._send_prefetched(before_a_claim=self._should_claim)
            has_room = admission.suspect or self._endpoints.takes_more(event.receiver)
            self._should_claim = self._should_claim or self._may_be_more or has_room

    async def _deliver(self, event: OutboxEvent) -> Delivery:
        """One signed POST. Timestamp and nonce are fresh, the event's id and body are what they always were."""
        try:
            secrets = await self._secrets_of(event.requester_id)
            now_s = time.time()
            headers = sign(secrets, event.body, event_id=event.id, timestamp=int(now_s), nonce=new_nonce())
        except StoreUnavailable:
            return msgspec.structs.replace(given_back(event), delay_us=SECOND_US)  # An outage is no failed delivery.
        except EuterpeError as error:
            return self._policy.of_missing_secret(event, f"no webhook secret of {event.requester_id}: {error}")
        headers["content-type"] = "application/json"
        try:
            reply = await self._egress.post(event.url, event.body, headers, deadline_s=self._settings.deadline_s)
        except EgressError as error:
            return self._policy.of_error(event, error)
        return self._policy.of_reply(event, reply, now_s)

    def _over(self, event: OutboxEvent, delivery: Delivery) -> None:
        if self._in_flight.get(event.id) is event:
            del self._in_flight[event.id]
            self._done.append(delivery)
        self._news.set()

    def _give_back(self, events: Iterable[OutboxEvent]) -> None:
        for event in events:
            self._over(event, given_back(event))

    async def _settle(self) -> None:
        """Together; one by one where something in the batch is refused, so that the others are written."""
        try:
            await self._settle_first(len(self._done))
        except StoreUnavailable:
            raise
        except Exception:  # noqa: BLE001  # the single ones tell which it is
            for _ in range(len(self._done)):
                await self._settle_single()

    async def _settle_single(self) -> None:
        try:
            await self._settle_first(1)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  # it may not stop the others
            refused = self._done.pop(0)
            extra = {"event_id": refused.event_id, "error_code": type(error).__name__}
            log.error("a delivery cannot be settled; its lease will expire", extra=extra)

    async def _settle_first(self, count: int) -> None:
        """What comes in meanwhile is put behind them."""
        done = self._done[:count]
        accepted = await self._outbox.settle(done)
        del self._done[:count]
        for delivery in done:
            if delivery.event_id not in accepted:
                log.warning("a late settle bounced", extra={"event_id": delivery.event_id})
            elif self._telemetry is not None:
                if (result := result_of(delivery)) is not None:
                    self._telemetry.outbox_attempts(result)
                if delivery.state == "dead_letter":
                    self._telemetry.outbox_dead_lettered()

    async def _renew_leases(self) -> None:
        """A delivery ends long before its lease does; this is for the ones that a slow database holds up."""
        while True:
            await asyncio.sleep(self._settings.lease_ttl_us / 3_000_000)
            leases = [(e.id, e.claim_version) for e in self._in_flight.values()]
            try:
                alive = await self._outbox.heartbeat(leases, self._settings.lease_ttl_us)
            except Exception as error:  # noqa: BLE001  # as above
                self._outage.pause_after(error, len(self._done))
                continue
            for event_id, claim_version in leases:
                lost = self._in_flight.get(event_id) if event_id not in alive else None
                if lost is not None and lost.claim_version == claim_version:
                    del self._in_flight[event_id]

    def _give_all_back(self) -> None:
        self._prefetched.beyond(0)
        self._give_back(list(self._in_flight.values()))
