"""Lines that handlers log are kept with their attempts, where a worker asks for it.

One log handler on the root logger of the process hears everything that is logged and looks whether an attempt is
running there. What is logged outside of attempts costs a look at a context variable.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from euterpe.observe.log_context import running_attempt
from euterpe.observe.logs import exception_of, hide_secrets, level_word, message_of, users_traceback


class AttemptLines(logging.Handler):
    """Hands each line to the attempt that logs it, without what looks like a secret."""

    def emit(self, record: logging.LogRecord) -> None:
        attempt = running_attempt.get()
        if attempt is None:
            return
        try:
            attempt.keep_line(
                int(record.created * 1_000_000), level_word(record), record.name, hide_secrets(_text_of(record))
            )
        except Exception:  # noqa: BLE001  # a message that cannot be formatted must not fail the job that logs it
            return


def _text_of(record: logging.LogRecord) -> str:
    """The message, with its exception."""
    message = message_of(record)
    if (traceback := users_traceback(record)) is not None:
        return f"{message}\n{traceback}"
    return " ".join([message, *exception_of(record, reveal=False).values()])


_lock: Final = threading.Lock()
_handler: Final = AttemptLines(logging.DEBUG)
_users = 0


def begin_keeping() -> None:
    """From now on, until as many have ended it as have begun it."""
    global _users  # the root logger is the process's own, too
    with _lock:
        _users += 1
        if _users == 1:
            logging.getLogger().addHandler(_handler)


def end_keeping() -> None:
    global _users
    with _lock:
        _users -= 1
        if _users == 0:
            logging.getLogger().removeHandler(_handler)
