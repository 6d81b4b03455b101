"""Every error the library raises, as one tree.

EuterpeError
├── InvalidInput(field)          the caller's data is wrong; nothing was stored
│   ├── PayloadTooLarge
│   ├── UnknownDependency
│   ├── DependencyCycle
│   └── DependencyLimit          too deep or too broad
├── IdempotencyConflict          the key was used for another request
├── IllegalTransition            the move is not in the state table
├── JobNotFound                  no such job (or another requester's)
│   └── JobPruned                it was there; only its tombstone is left
├── StaleLease                   the fence refused the write: abort, someone else owns the job
├── UnprocessableRow             a stored row cannot be read; it is ended alone
├── Unsupported                  this engine cannot do that, by design
├── MissingExtra                 a package is not installed; the message has the command that installs it
├── StoreUnavailable             the database did not answer, or refuses for now; nothing is known to be lost
│   ├── CommitUnknown            the answer to a commit was lost; ask by idempotency key or job id
│   ├── ServerNotReady           the server takes no connection for now: it is starting, full, or not listening yet
│   └── SchemaMismatch           the database's schema is newer than this code, not migrated, or away for a moment
├── DataRejected(code)           the database refuses these very values; nothing was written, a retry is refused too
└── JobFailed                    raised by `job.result()`: the job ended without a result

TemporaryError, PermanentError   raised *by handlers* to say which kind of failure it was
"""

from __future__ import annotations

from euterpe.model.failures.job_error import JobError


class EuterpeError(Exception):
    """Root of everything the library raises on its own account."""


class InvalidInput(EuterpeError, ValueError):
    """The caller's data is wrong. `field` names the culprit."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.reason = message


class PayloadTooLarge(InvalidInput):
    """A payload, result or checkpoint is over its limit."""


class UnknownDependency(InvalidInput):
    """A dependency id does not exist (or belongs to another requester)."""


class DependencyCycle(InvalidInput):
    """The submitted graph has a cycle."""


class DependencyLimit(InvalidInput):
    """The graph is deeper than 100 levels, a job has more than 1000 dependencies, or a submission more than 20,000."""


class IdempotencyConflict(EuterpeError):
    """The same idempotency key came with a different request."""

    def __init__(self, key: str, job_id: str, made: str = "job") -> None:
        super().__init__(
            f"idempotency_key {key!r} was already used for a different request ({made} {job_id}); "
            "use a new key for a new request, or send the same request to get the same answer"
        )
        self.key = key
        self.job_id = job_id


class IllegalTransition(EuterpeError):
    """A move that the state table does not list."""

    def __init__(self, source: str, target: str, why: str = "", what: str = "job") -> None:
        super().__init__(f"a {source} {what} cannot become {target}" + (f": {why}" if why else ""))
        self.source = source
        self.target = target


class JobNotFound(EuterpeError, LookupError):
    """No such job for this requester."""

    def __init__(self, job_id: str, message: str | None = None) -> None:
        super().__init__(message or f"no job {job_id}")
        self.job_id = job_id


class JobPruned(JobNotFound):
    """The job ended and its history was pruned by retention."""

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id, f"job {job_id} ended and its record was pruned by retention")


class StaleLease(EuterpeError):
    """The fence refused a write: this claim no longer owns the job."""

    def __init__(self, job_id: str, claim_version: int) -> None:
        super().__init__(f"claim {claim_version} of job {job_id} no longer owns it; abort and write nothing more")
        self.job_id = job_id
        self.claim_version = claim_version


class UnprocessableRow(EuterpeError):
    """A column of a stored job cannot be read: an older release or a hand wrote it."""

    def __init__(self, job_id: str, column: str) -> None:
        super().__init__(f"the row of job {job_id} cannot be processed: its {column} cannot be read")
        self.job_id = job_id
        self.column = column


class Unsupported(EuterpeError):
    """This engine cannot do that, by design."""


class MissingExtra(EuterpeError, ImportError):
    """This installation lacks a package. `extra` names the extra that brings it."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the package {package}, which is not installed; "
            f"install it with: pip install 'euterpe-queue[{extra}]'"
        )
        self.package = package
        self.extra = extra


class OpenedBeforeFork(EuterpeError):
    """The connections and threads of an open queue belong to the process that opened it."""

    def __init__(self) -> None:
        super().__init__("this queue was opened before a fork; make a new Queue in the child process")


class StoreUnavailable(EuterpeError):
    """An outage: the database did not answer in time, or refuses statements for now (a lock, a full disk, a read-only
    phase). Nothing of this call was written; what was acknowledged is safe; the same call may succeed later.
    `code` is the database's own, where it gave one."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class CommitUnknown(StoreUnavailable):
    """The connection broke while a commit was under way: it may or may not have happened."""


class ServerNotReady(StoreUnavailable):
    """The server takes no connection for now: it starts or stops, has too many, or nothing listens at its address. A
    wrong password or a missing database is no such case: waiting does not help there."""


class SchemaMismatch(StoreUnavailable):
    """The database's schema does not fit this code. Somebody has to migrate it; until then it counts as an outage."""


class DataRejected(EuterpeError):
    """The database refuses a value or a row for what it is. `code` is its SQLSTATE, or SQLite's result code. The
    message does not quote the data."""

    def __init__(self, place: str, code: str, what: str) -> None:
        super().__init__(f"{place} rejected the data of this write ({what}, {code}); nothing was written")
        self.code = code


class JobFailed(EuterpeError):
    """The awaited job ended without a result. `error` tells why, where a handler or the system failed it."""

    def __init__(self, job_id: str, state: str, error: JobError | None) -> None:
        detail = "" if error is None else f": {_message_of(error)}"
        super().__init__(f"job {job_id} ended {state}{detail}")
        self.job_id = job_id
        self.state = state
        self.error = error


def _message_of(error: JobError) -> str:
    """The code of a plain exception is its type: without it, a KeyError would be a mere name in quotes."""
    is_type = error.code[:1].isupper() and error.code not in error.message
    return f"{error.code}: {error.message}" if is_type else error.message


class TemporaryError(Exception):
    """A handler raises this when a retry may succeed."""

    def __init__(
        self, message: str, cause: BaseException | None = None, retry_after: str | float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.retry_after = retry_after


class PermanentError(Exception):
    """A handler raises this when a retry would fail the same way."""

    def __init__(self, message: str, cause: BaseException | None = None, code: str = "permanent") -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.code = code
