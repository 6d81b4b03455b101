"""Hints that work is there. The database stays the truth."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:  # A port is its signatures alone; whoever makes a value loads it.
    from euterpe.model.job import JobRow
    from euterpe.model.submitting.batch import SubmitResult


OUTBOX_CHANNEL = "*outbox"
"""Announced like a queue when events were written; no queue can have this name by accident."""
CANCEL_CHANNEL = "*cancels"
"""Announced when a running job was asked to stop, or taken away."""
OPERATIONS_CHANNEL = "*operations"
"""Announced when somebody ordered an act on all that match."""
SIDE_CHANNELS = frozenset({OUTBOX_CHANNEL, CANCEL_CHANNEL, OPERATIONS_CHANNEL})
"""What is no queue."""


class Wakeups(Protocol):
    """Hints that work may be there. Losing one costs latency, never a job: everyone polls as well."""

    def announce(self, queues: Iterable[str]) -> None:
        """Tell whoever listens, here or in other processes, that these queues have work. Never waits."""
        ...

    def subscribe(self, wake: Callable[[], None], queues: Collection[str]) -> Callable[[], None]:
        """Call `wake` (on this loop) for work in these queues; returns how to stop."""
        ...


class CommitNotice(NamedTuple):
    """What wake-ups make of work that is about to be committed."""

    announce: Callable[[Iterable[str]], None]
    """To be called after the commit, for those who were not notified before."""
    channel: str | None = None
    """The channel on which the commit itself notifies of the queue."""


@runtime_checkable
class NotifiesBeforeCommit(Protocol):
    """Wakeups that can do something before the commit of a lone job already."""

    def notify_before_commit(self, queue: str) -> CommitNotice: ...


Address = tuple[str, str]
"""Where a message of wake-ups lies: (stream, message_id)."""


@runtime_checkable
class MessageWakeups(Protocol):
    """Wakeups whose messages stand for jobs: each stays pending until its job ended, or went back to wait."""

    def announce_jobs(self, ready: Sequence[SubmitResult]) -> None:
        """These jobs can be claimed. Called after their commit; never waits."""
        ...

    async def messages_of(self, jobs: Sequence[JobRow]) -> list[Address | None]:
        """The messages of jobs that were just claimed; None where Redis does not answer."""
        ...

    def acknowledge(self, ended: Sequence[tuple[str, Address | None]]) -> None:
        """(job_id, the message as its worker named it): called after the commit. Never waits."""
        ...
