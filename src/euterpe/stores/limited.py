"""What stores without a SQL database have in common: how they take submissions, and what they refuse."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NoReturn

from euterpe.model.claims.exchange import ClaimRequest, Report
from euterpe.model.errors import Unsupported
from euterpe.model.job import Claim
from euterpe.model.submitting.batch import Draft, SubmitResult, Unit, drafts_of
from euterpe.model.submitting.submission import IDEMPOTENCY_WINDOW_US, Submission, check, check_key
from euterpe.ports import ControlPlaneStore, CronStore, KeyRates, OutboxStore, Telemetry, Wakeups


class LimitedStore(ABC):
    """Redis lists, and a control plane over HTTP. What they lack raises Unsupported, as their capabilities say."""

    kind: ClassVar[str]
    """What a refusal calls this store."""
    instead: ClassVar[str]
    """What a refusal advises."""

    def __init__(self, payload_limit: int) -> None:
        self.payload_limit = payload_limit
        self.key_window_us = IDEMPOTENCY_WINDOW_US
        self.wakeups: Wakeups | None = None
        self.telemetry: Telemetry | None = None
        self._waiting: set[str] = set()
        """Workers that have a claim waiting at the server."""

    @classmethod
    def refuse(cls, what: str) -> NoReturn:
        raise Unsupported(f"{cls.kind} cannot {what}; {cls.instead}")

    async def submit(self, submission: Submission) -> SubmitResult:
        check(submission, self.payload_limit)
        return (await self.submit_unit(Unit(drafts_of([submission]))))[0]

    async def submit_many(self, submissions: Sequence[Submission], key: str | None = None) -> list[SubmitResult]:
        return await self.submit_graph(drafts_of(submissions), key)

    async def submit_graph(self, drafts: Sequence[Draft], key: str | None = None) -> list[SubmitResult]:
        if key is not None:
            check_key(key)
        for draft in drafts:
            check(draft.submission, self.payload_limit)
        return await self.submit_unit(Unit(tuple(drafts), key=key)) if drafts else []

    @abstractmethod
    async def submit_unit(self, unit: Unit) -> list[SubmitResult]: ...

    def claim_again(self, request: ClaimRequest) -> None:
        """Only a claim that waits hears of new work: while a worker has room, one of its claims must be under way."""
        if self.wakeups is not None and request.worker_id not in self._waiting:
            self.wakeups.announce(request.queues)

    # --- what they lack -------------------------------------------------------------------------------

    @property
    def outbox(self) -> OutboxStore:
        self.refuse("read or redeliver webhook events")

    @property
    def control_plane(self) -> ControlPlaneStore:
        self.refuse("serve a control plane")

    @property
    def crons(self) -> CronStore:
        self.refuse("list or change crons")

    @property
    def rates(self) -> KeyRates:
        self.refuse("read or change the rates of keys")

    async def migrate(self) -> list[str]:
        """Redis has no schema, and a control plane migrated its own when it started."""
        return []

    async def submit_unit_on(self, unit: Unit, connection: object, channel: str | None = None) -> list[SubmitResult]:  # noqa: ARG002
        self._refuse_to_join()

    def submit_unit_on_sync(self, unit: Unit, connection: object, channel: str | None = None) -> list[SubmitResult]:  # noqa: ARG002
        self._refuse_to_join()

    async def complete_on(self, finished: Report, connection: object) -> None:  # noqa: ARG002
        self._refuse_to_join()

    def complete_on_sync(self, finished: Report, connection: object) -> None:  # noqa: ARG002
        self._refuse_to_join()

    async def completed(self, claims: Sequence[Claim]) -> list[bool]:
        """Nothing is: no transaction can be joined here."""
        return [False] * len(claims)

    def _refuse_to_join(self) -> NoReturn:
        self.refuse("join the transaction of a connection")
