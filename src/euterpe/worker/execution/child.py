"""The other end of `processes.py`: a process that runs one handler for one job after another.

Started as `python -m euterpe.worker.execution.child FD`; the first line over that socket says what to serve. A thread
reads the socket while the handler runs, so that it hears a cancel request and the process ends with its worker.
"""

from __future__ import annotations

import concurrent.futures
import importlib
import os
import queue
import runpy
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from euterpe.model.claims.attempt_log import LogLine
from euterpe.model.claims.exchange import ProgressUpdate
from euterpe.model.errors import EuterpeError, Unsupported
from euterpe.model.job import Claim
from euterpe.model.submitting.submission import Submission
from euterpe.observe.attempt_lines import begin_keeping
from euterpe.observe.log_context import running_attempt
from euterpe.observe.logs import configure_as
from euterpe.worker.context import NO_STATE, Context, Sent
from euterpe.worker.execution.pipe import (
    FromChild,
    Logged,
    PipeAnswer,
    PipeRun,
    PipeStop,
    ProgressMessage,
    Raised,
    Returned,
    Serve,
    Spawn,
    Unable,
    read_to_child,
    to_line,
)
from euterpe.worker.failures import failure_of
from euterpe.worker.handling.handlers import Handler, encode_result, handler_of

ENDED_WITH_THE_WORKER = 113
Stream = Any
"""The socket as a buffered file: read by one thread, written under a lock."""


class Refused(EuterpeError):
    """The worker could not write what this process told."""


class PipeReporter:
    """News over the socket; the worker's answers come back by number."""

    state = NO_STATE

    def __init__(self, stream: Stream, make_submission: Callable[..., Submission] | None) -> None:
        self._stream = stream
        self._make_submission = make_submission
        self._lock = threading.Lock()
        self._number = 0
        self._waiting: dict[int, concurrent.futures.Future[Any]] = {}

    def send(self, message: FromChild) -> None:
        line = to_line(message)
        with self._lock:
            self._stream.write(line)
            self._stream.flush()

    def report_progress(self, update: ProgressUpdate) -> Sent[None]:
        number, future = self._expect()
        self.send(ProgressMessage(number, update.stage, update.progress, update.message, update.checkpoint))
        return Sent(future)

    def spawn(self, claim: Claim, submission: Submission) -> Sent[str]:  # noqa: ARG002  # the worker knows the claim
        number, future = self._expect()
        self.send(Spawn(number, submission))
        return Sent(future)

    def make_submission(self, what: object, payload: object = None, /, **options: Any) -> Submission:
        if self._make_submission is None:
            raise Unsupported("this handler's module has no queue at its name; spawn from an async or thread handler")
        return self._make_submission(what, payload, **options)

    def complete(self, claim: Claim, connection: object, result: object, log: str | None) -> Awaitable[None]:  # noqa: ARG002
        raise Unsupported("a process handler cannot complete in its own transaction; use an async or thread handler")

    def charge(self, claim: Claim, tokens: int) -> Sent[None]:  # noqa: ARG002
        raise Unsupported("a process handler cannot charge its key's rate; use an async or thread handler")

    def keep_line(self, context: Context, line: LogLine) -> None:  # noqa: ARG002  # the worker knows the attempt
        self.send(Logged(line))

    def answered(self, answer: PipeAnswer) -> None:
        future = self._waiting.pop(answer.number, None)
        if future is None:
            return
        if answer.error is not None:
            future.set_exception(Refused(answer.error))
        else:
            future.set_result(answer.value)

    def _expect(self) -> tuple[int, concurrent.futures.Future[Any]]:
        with self._lock:
            self._number += 1
            future = self._waiting[self._number] = concurrent.futures.Future()
            return self._number, future


class HandlerService:
    """One handler, one job at a time."""

    def __init__(self, stream: Stream, orders: Serve) -> None:
        found = find(orders.module, orders.qualname)
        function = getattr(found, "function", found)
        self._handler: Handler = handler_of(orders.type, function, process=True)
        # Where the decorator stands at that name, it is a job type: a thing of a higher layer, that knows its queue.
        submitter = getattr(getattr(found, "_definition", None), "submitter", None)
        self._reporter = PipeReporter(stream, getattr(submitter, "make_submission", None))
        self._result_limit = orders.result_limit
        self._runs: queue.SimpleQueue[PipeRun] = queue.SimpleQueue()
        self._context: Context | None = None

    def listen(self, stream: Stream) -> NoReturn:
        """In a thread of its own, until the socket closes."""
        for line in stream:
            match read_to_child(line):
                case PipeRun() as run:
                    self._runs.put(run)
                case PipeStop() if self._context is not None:
                    self._context.ask_to_stop()
                case PipeAnswer() as answer:
                    self._reporter.answered(answer)
        _end()

    def work(self) -> NoReturn:
        while True:
            run = self._runs.get()
            self._context = context = Context(run.claim, self._reporter, run.deadline)
            running_attempt.set(context)  # for the log lines of the handler
            outcome = self._outcome(run, context)
            running_attempt.set(None)
            self._reporter.send(outcome)
            self._context = None

    def _outcome(self, run: PipeRun, context: Context) -> FromChild:
        try:
            arguments = self._handler.arguments_of(run.claim.job)
            args = (context,) if self._handler.takes_context else ()
            value = self._handler.function(*args, **arguments)
            encoded = encode_result(self._handler, value, self._result_limit)
            return Returned(msgspec.Raw(encoded), context.saw_the_request)
        except BaseException as error:  # noqa: BLE001  # whatever the handler raises is the job's error
            return Raised(failure_of(error))


def find(module: str, qualname: str) -> Any:  # a user's module has it
    """What the module has under the function's name: the job type, or the plain function."""
    if module.endswith(".py"):
        found: Any = runpy.run_path(module, run_name="__euterpe_child__")
        first, *rest = qualname.split(".")
        found = found[first]
    else:
        found = importlib.import_module(module)
        rest = qualname.split(".")
    for name in rest:
        found = getattr(found, name)
    return found


def serve(stream: Stream) -> None:
    orders = read_to_child(stream.readline())
    if not isinstance(orders, Serve):
        raise EuterpeError(f"expected orders, got {type(orders).__name__}")
    sys.argv, sys.path = orders.argv, orders.path
    try:
        service = HandlerService(stream, orders)
    except BaseException as error:  # noqa: BLE001  # importing a user's module may raise anything
        failure = failure_of(error)
        why = f"{failure.code}: {failure.message}"
        reason = f"{Path(orders.module).name}:{orders.qualname} cannot be imported in a process: {why}"
        stream.write(to_line(Unable(reason[:2000])))
        stream.flush()
        return
    # After the import, as in the worker: what the application sets up for itself stays its own.
    if orders.logs is not None:
        configure_as(orders.logs)
    if orders.keeps_lines:
        begin_keeping()
    threading.Thread(target=service.listen, args=(stream,), name="euterpe-pipe", daemon=True).start()
    service.work()


def _end() -> NoReturn:
    """The worker is gone or has no use for us: nothing we started may outlive us."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(ENDED_WITH_THE_WORKER)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as link:
        os.set_inheritable(link.fileno(), False)
        with link.makefile("rwb") as stream:
            serve(stream)


if __name__ == "__main__":
    main()
