"""The store: everything that a queue, a worker, a server or an operator asks of an engine.

SQLite, Postgres and libsql keep it through `stores.sql`, Redis through `stores.redis_lists`, a control plane through
`stores.remote`. What an engine cannot do raises `Unsupported`, and `capabilities` says so before it is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from euterpe.ports.claims import CallerCompletions, Claims

if TYPE_CHECKING:  # A port is its signatures alone; whoever makes a value loads it.
    from euterpe.model.claims.attempt_log import AttemptLog
    from euterpe.model.failures.group import FailureGroups
    from euterpe.model.job import AttemptRow, JobRow, Lease
    from euterpe.model.reading.views import QueueDepth, Search, SearchPage, StoreStats
    from euterpe.model.reading.why import Explanation
    from euterpe.model.state import State
    from euterpe.model.submitting.batch import Draft, SubmitResult, Unit
    from euterpe.model.submitting.changes import Changes
    from euterpe.model.submitting.replayed import Replayed
    from euterpe.model.submitting.submission import Submission
    from euterpe.ports.control_plane import ControlPlaneStore
    from euterpe.ports.crons import CronStore
    from euterpe.ports.operations import BulkOperations
    from euterpe.ports.outbox import OutboxStore
    from euterpe.ports.rates import KeyRates
    from euterpe.ports.sweeps import Sweeps
    from euterpe.ports.telemetry import Telemetry
    from euterpe.ports.wakeups import Wakeups
    from euterpe.ports.workers import WorkerRegistry

Clock = Callable[[], int]
"""Microseconds since the epoch. Injected in tests; on Postgres the default is the database's own clock."""


class Capability(StrEnum):
    """What not every engine can do."""

    CALLER_TRANSACTION = "submit, and complete a job, inside the caller's own transaction"
    OUTBOX = "deliver webhooks"
    CONTROL_PLANE = "serve a control plane"
    OPERATE = "pause queues and types, look into all queues, purge dead letters, migrate"
    ANY_REQUESTER = "act for every requester, not only for the one of a key"
    CHOSEN_IDS = "store jobs under ids that the caller chose"
    CHOSEN_LEASE = "let the claimer choose how long its lease lasts"
    RAW_BYTES = "keep results and checkpoints that are not JSON"
    WHOLE_JOBS = "tell everything that is stored of a job"
    LARGE_BATCHES = "store a batch of any size in one piece"
    RETRY_DELAYS = "tell how long a retry waits"
    DEPENDENCIES = "let jobs wait for other jobs"
    CONCURRENCY_KEYS = "bound how many jobs of a key run at the same time"
    KEY_RATES = "bound how many jobs of a key start in a time"
    UNIQUE_KEYS = "keep one job of a unique key at a time"
    PREFETCH = "let a worker claim ahead of its free slots, and refund what it had not begun when it dies"
    CRONS = "keep crons as data"
    WORKERS = "tell which workers are alive"
    SEARCH = "search jobs"
    BULK = "act on everything that matches a query, and group failures by cause"
    LOG_LINES = "keep what a handler logs"
    REPLAY_FLAGS = "tell of each job in a batch whether it was replayed"


EVERYTHING = frozenset(Capability)


class Store(Claims, CallerCompletions, Protocol):
    """Jobs, durably. A write is there when its await returns, and never was after an error other than CommitUnknown."""

    key_window_us: int
    """How long idempotency keys are remembered that do not say it themselves."""
    telemetry: Telemetry | None
    """Who counts what happens beside the attempts of workers."""

    @property
    def capabilities(self) -> frozenset[Capability]: ...

    payload_limit: int
    """The largest payload that a submit may bring, in bytes."""

    @property
    def sweeps(self) -> Sweeps: ...

    @property
    def outbox(self) -> OutboxStore:
        """Its webhook events. Unsupported where somebody else delivers them."""
        ...

    @property
    def control_plane(self) -> ControlPlaneStore:
        """What a control plane is served from. Unsupported where there is none to serve."""
        ...

    @property
    def operations(self) -> BulkOperations:
        """Acts on everything that matches a query."""
        ...

    @property
    def crons(self) -> CronStore:
        """Crons as rows. Unsupported where the database is out of reach."""
        ...

    @property
    def rates(self) -> KeyRates:
        """How many jobs of a key may start in a time. Unsupported where only the control plane says it."""
        ...

    @property
    def workers(self) -> WorkerRegistry:
        """Who is alive. Unsupported where nobody keeps it."""
        ...

    @property
    def wakeups(self) -> Wakeups | None:
        """Who is told of new work."""
        ...

    @wakeups.setter
    def wakeups(self, wakeups: Wakeups | None) -> None: ...

    # --- life ---------------------------------------------------------------------------------------

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def migrate(self) -> list[str]:
        """Bring the schema up to date, under a lock; returns the names of what was applied."""
        ...

    async def ping(self) -> None:
        """Raises StoreUnavailable when the store does not answer."""
        ...

    async def now_us(self) -> int:
        """The time by which this store decides, in microseconds since the epoch."""
        ...

    def expect_leases_of(self, seconds: float) -> None:
        """A worker with such leases is at work here: the locks of a frozen transaction must not outlast them."""
        ...

    def expect_own_spans(self) -> None:
        """The worker on this store traces its attempts itself."""
        ...

    # --- submit -------------------------------------------------------------------------------------

    async def submit(self, submission: Submission) -> SubmitResult:
        """Store one job; an error names what is wrong, and then nothing is stored."""
        ...

    async def submit_many(self, submissions: Sequence[Submission], key: str | None = None) -> list[SubmitResult]:
        """Store all of them or none."""
        ...

    async def submit_graph(self, drafts: Sequence[Draft], key: str | None = None) -> list[SubmitResult]:
        """Store a whole graph, whose drafts depend on each other by id, or nothing of it."""
        ...

    async def submit_unit(self, unit: Unit) -> list[SubmitResult]:
        """Store a unit that was checked before, all of it or nothing."""
        ...

    async def submit_unit_on(self, unit: Unit, connection: object, channel: str | None = None) -> list[SubmitResult]:
        """Store a unit inside the transaction that the caller has open on this connection."""
        ...

    def submit_unit_on_sync(self, unit: Unit, connection: object, channel: str | None = None) -> list[SubmitResult]:
        """The same on a blocking connection, from code that cannot await."""
        ...

    async def spawn(self, parent: Lease, submissions: Sequence[Submission]) -> list[SubmitResult]:
        """Children of a running job; refused when its claim is stale."""
        ...

    # --- operators ----------------------------------------------------------------------------------

    async def cancel(self, job_id: str, requester_id: str | None = None, *, force: bool = False) -> State:
        """Cancel a waiting job, ask a running one to stop, or, by force, take it from its worker."""
        ...

    async def retry(self, job_id: str, requester_id: str | None = None, key: str | None = None) -> JobRow:
        """The job, scheduled again, or a new job that replays it; with an idempotency key only one such job."""
        ...

    async def replay(self, job_id: str, requester_id: str | None = None) -> Replayed:
        """As `retry`, once, and with its place in the graph: behind what it waited for, and before all that ended
        because of it, which is replayed too. An answer says whether it was made before."""
        ...

    async def dead_letter(self, job_id: str, requester_id: str | None = None) -> State:
        """Put a failed job to the dead letters."""
        ...

    async def purge(self, job_ids: Sequence[str]) -> list[str]:
        """Throw dead letters away, all or none; returns the ids that were there."""
        ...

    async def update(self, job_id: str, changes: Changes, requester_id: str | None = None) -> JobRow:
        """Change priority (while it waits), tags, correlation id or callback URL."""
        ...

    async def pause(self, kind: str, name: str) -> None:
        """No worker claims from this `queue` or of this `type` until it is resumed."""
        ...

    async def resume(self, kind: str, name: str) -> None: ...

    async def paused(self) -> list[tuple[str, str]]:
        """(kind, name) of everything that is paused."""
        ...

    # --- readers ------------------------------------------------------------------------------------

    async def get(self, job_id: str, requester_id: str | None = None) -> JobRow: ...

    async def attempts(self, job_id: str, requester_id: str | None = None) -> list[AttemptRow]: ...

    async def attempt_logs(self, job_id: str, requester_id: str | None = None) -> list[AttemptLog]:
        """What handlers logged, of the attempts of which something is kept, first to last."""
        ...

    async def why(self, job_id: str, requester_id: str | None = None) -> Explanation:
        """Why the job is where it is, in a sentence. Costs a few index reads, whatever waits."""
        ...

    async def search(self, query: Search) -> SearchPage: ...

    async def failure_groups(self, requester_id: str | None = None, limit: int = 50) -> FailureGroups:
        """Failed and dead-lettered jobs by cause, the cause that struck last first. Bounded, and says so."""
        ...

    async def stats(self, requester_id: str | None = None) -> StoreStats: ...

    async def depths(self) -> list[QueueDepth]:
        """The live jobs of every queue by state."""
        ...

    async def peek(self, queues: Sequence[str], limit: int) -> list[JobRow]:
        """What a worker that knows every type would claim next."""
        ...

    async def unknown_types(self, queues: Sequence[str], types: Sequence[str]) -> dict[str, int]:
        """Types of waiting jobs that are not among these, with counts."""
        ...
