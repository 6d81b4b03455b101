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
    """The base class of all errors of this library."""


class InvalidInput(EuterpeError, ValueError):
    """An argument is wrong. `field` names it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.reason = message


class PayloadTooLarge(InvalidInput):
    """A payload, result or checkpoint is over its limit."""


class UnknownDependency(InvalidInput):
    """A dependency does not exist, or belongs to another requester."""


class DependencyCycle(InvalidInput):
    """The submitted graph has a cycle."""


class DependencyLimit(InvalidInput):
    """The graph is deeper than 100 levels, a job has more than 1000 dependencies, or a submission more than 20,000."""


class IdempotencyConflict(EuterpeError):
    """The idempotency key was already used for a different request."""

    def __init__(self, key: str, job_id: str, made: str = "job") -> None:
        super().__init__(
            f"idempotency_key {key!r} was already used for a different request ({made} {job_id}); "
            "use a new key for a new request, or send the same request to get the same answer"
        )
        self.key = key
        self.job_id = job_id


class IllegalTransition(EuterpeError):
    """The state or stage of the job does not allow this change."""

    def __init__(self, source: str, target: str, why: str = "", what: str = "job") -> None:
        super().__init__(f"a {source} {what} cannot become {target}" + (f": {why}" if why else ""))
        self.source = source
        self.target = target


class JobNotFound(EuterpeError, LookupError):
    """The job does not exist, or belongs to another requester."""

    def __init__(self, job_id: str, message: str | None = None) -> None:
        super().__init__(message or f"no job {job_id}")
        self.job_id = job_id


class JobPruned(JobNotFound):
    """The job has ended, and retention has removed it."""

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id, f"job {job_id} ended and its record was pruned by retention")


class StaleLease(EuterpeError):
    """The write was refused, because this attempt no longer owns the job."""

    def __init__(self, job_id: str, claim_version: int) -> None:
        super().__init__(f"claim {claim_version} of job {job_id} no longer owns it; abort and write nothing more")
        self.job_id = job_id
        self.claim_version = claim_version


class UnprocessableRow(EuterpeError):
    """A stored job has a value that cannot be read, for example because an older release or a person wrote it."""

    def __init__(self, job_id: str, column: str) -> None:
        super().__init__(f"the row of job {job_id} cannot be processed: its {column} cannot be read")
        self.job_id = job_id
        self.column = column


class Unsupported(EuterpeError):
    """The engine of this queue does not support this."""


class MissingExtra(EuterpeError, ImportError):
    """A package is not installed. `extra` is the name of the extra that installs it."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the package {package}, which is not installed; "
            f"install it with: pip install 'euterpe-queue[{extra}]'"
        )
        self.package = package
        self.extra = extra


class OpenedBeforeFork(EuterpeError):
    """The queue was opened before a fork. Open it in the process that uses it."""

    def __init__(self) -> None:
        super().__init__("this queue was opened before a fork; make a new Queue in the child process")


class StoreUnavailable(EuterpeError):
    """The database did not answer in time, or it refuses statements at the moment (a lock, a full disk, a read-only
    phase). This call wrote nothing, and the same call may succeed later. Acknowledged jobs are safe. `code` is the code
    of the database, if it gave one."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class DatabaseLocked(StoreUnavailable):
    """Another session or process holds a lock that this call needs. `holder` names it, as far as it is known, and can
    be shown to anybody: it has no literal of a query and no path."""

    def __init__(self, message: str, code: str = "", holder: str = "") -> None:
        super().__init__(f"{message}; {holder}" if holder else message, code)
        self.holder = holder


class CommitUnknown(StoreUnavailable):
    """The connection broke during a commit, so the commit may or may not have happened."""


class ServerNotReady(StoreUnavailable):
    """The server does not accept connections at the moment: it starts or stops, has too many connections, or does not
    listen yet. A wrong password or a missing database raises another error, because waiting does not help there."""


class SchemaMismatch(StoreUnavailable):
    """The schema of the database does not fit this release. It must be migrated; until then this counts as an
    outage."""


class DataRejected(EuterpeError):
    """The database refuses a value or a row because of its content. `code` is the SQLSTATE, or the result code of
    SQLite. The message does not contain the data."""

    def __init__(self, place: str, code: str, what: str) -> None:
        super().__init__(f"{place} rejected the data of this write ({what}, {code}); nothing was written")
        self.code = code


class JobFailed(EuterpeError):
    """The job ended without a result. `error` says why, if a handler or the system failed it."""

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
    """Raise this in a handler if a retry may succeed."""

    def __init__(
        self, message: str, cause: BaseException | None = None, retry_after: str | float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.retry_after = retry_after


class PermanentError(Exception):
    """Raise this in a handler if a retry would fail in the same way."""

    def __init__(self, message: str, cause: BaseException | None = None, code: str = "permanent") -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.code = code
