"""Structured logs: one JSON object a line, and only keys that were agreed on.

Every part of the house logs with the standard library, values going into `extra`:
`logging.getLogger("euterpe.worker").info("job settled", extra={"job_id": ..., "queue": ...})`.
`configure_logging` installs the one handler of a process. Of our own records its gate lets through a constant message
(numbers may be filled in) and the keys of `ALLOWED_KEYS`; what else our code says raises in development and tests, and
is dropped and counted in production. Of an exception it keeps type and place; its message may quote a payload and shows
at debug alone. Records of the user's own loggers pass as they are, with the keys of the job that runs, but for values
whose names are those of secrets.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, MutableMapping
from enum import Enum
from functools import lru_cache
from types import TracebackType
from typing import Any, Final, TextIO
from uuid import UUID

import msgspec

from euterpe.model.errors import EuterpeError
from euterpe.model.failures.trace import AttemptTrace
from euterpe.model.secret_names import is_secret
from euterpe.observe.log_context import current_keys
from euterpe.observe.tracing import current_span

CANONICAL_KEYS: Final = frozenset(
    {
        *(
            "level",
            "ts",
            "msg",
            "trace_id",
            "span_id",
            "job_id",
            "queue",
            "worker_id",
            "request_id",
            "namespace",
        ),
        *("claim_version", "event_id"),
    }
)
"""The keys that the specification names (001 and 004)."""

ADDED_KEYS: Final = frozenset(
    {
        *("logger", "exc_type", "exc_at", "exc_msg"),  # who spoke, and which exception rose where
        *("type", "state", "attempt"),  # what happened to which try of a job
        *("error_code", "category", "duration_ms", "delay_ms", "count"),  # how it went: codes and numbers, never texts
        *("method", "path", "status"),  # a request; `path` is the route's template
        *("host", "port", "engine"),  # what was started or reached
        "place",  # a file and line of the code that blocks, or a program of this machine
        "requester_id",  # on whose behalf
        "blocked_by",  # the session that holds a lock; its query is cut before its first literal
    }
)
ALLOWED_KEYS: Final = CANONICAL_KEYS | ADDED_KEYS

_SET_BY_THE_FORMATTER: Final = frozenset({"level", "ts", "msg", "logger", "exc_type", "exc_at", "exc_msg"})
_STANDARD_ATTRIBUTES: Final = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
    "euterpe_fields",
}
_VALUE_LIMIT: Final = 256
_DEEPEST: Final = 8
HIDDEN: Final = "***"
_LEVELS: Final = {"warn": logging.WARNING}
_TELLS_REPRS: Final = ("asyncio", "concurrent.futures")
"""Loggers whose messages quote objects and exceptions from the second line on."""
_SECRET_SHAPES: Final = re.compile(
    r"(://)[^/\s@]+@|(\bwhsec_)[A-Za-z0-9+/=_-]+|(\bbearer\s+)\S+|"
    r"((?:password|secret|token|api_?key|authorization)[\"']?\s*[=:]\s*(?:bearer\s+|basic\s+)?)[^\s,;&]+",
    re.IGNORECASE,
)


class ForbiddenLogKey(EuterpeError):
    """A log call carried something that logs must not carry. Raised in development and tests only."""


class AllowList(logging.Filter):
    """Decides what of a record may leave the process. `strict` raises at the log call that is wrong."""

    def __init__(self, *, strict: bool, namespace: str = "") -> None:
        super().__init__()
        self.strict = strict
        self._everywhere = {"namespace": namespace} if namespace else {}
        self.dropped: Counter[str] = Counter()
        """How often each forbidden key was dropped (at most 100 different keys are told apart)."""

    def filter(self, record: logging.LogRecord) -> bool:
        guarded = is_guarded(record)
        if guarded and is_ours(record) and not _harmless(record.args):
            self._refuse(record, "%-arguments", "put the value under an allowed key and keep the message constant")
        fields = self._allowed(record) if guarded else _extras(record)
        span = current_span()
        if span is not None:
            fields.setdefault("trace_id", span.trace_id)
            fields.setdefault("span_id", span.span_id)
        record.euterpe_fields = {**self._everywhere, **current_keys(), **fields}
        return True

    def _allowed(self, record: logging.LogRecord) -> dict[str, object]:
        ours = is_ours(record)
        fields: dict[str, object] = {}
        for key, value in vars(record).items():
            if key in _STANDARD_ATTRIBUTES:
                continue
            if isinstance(value, Enum):
                value = value.value
            if key not in ALLOWED_KEYS or key in _SET_BY_THE_FORMATTER:
                self._refuse(record, key, "it is not an allowed key", ours=ours)
            elif not isinstance(value, str | int | float | UUID | None):
                self._refuse(record, key, f"a {type(value).__name__} may hold a payload", ours=ours)
            else:
                fields[key] = _plain(value)
        return fields

    def _refuse(self, record: logging.LogRecord, key: str, why: str, *, ours: bool = True) -> None:
        if self.strict and ours:
            raise ForbiddenLogKey(f"{record.name} may not log {key!r} at {record.filename}:{record.lineno}: {why}")
        self.dropped[key if key in self.dropped or len(self.dropped) < 100 else "other"] += 1


def is_ours(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] == "euterpe"


def is_guarded(record: logging.LogRecord) -> bool:
    """Ours, and those that quote what we run. All others are the user's, who knows what may be logged."""
    return is_ours(record) or record.name in _TELLS_REPRS


def _extras(record: logging.LogRecord) -> dict[str, object]:
    """What a user's record carries, without secrets; a key that the line itself uses gets another name."""
    return {
        f"extra_{key}" if key in _SET_BY_THE_FORMATTER else key: _without_secrets(key, value)
        for key, value in vars(record).items()
        if key not in _STANDARD_ATTRIBUTES
    }


def _without_secrets(name: object, value: object, level: int = 0) -> object:
    """A value whose name is that of a secret is hidden, also inside of dictionaries and lists."""
    if isinstance(name, str) and is_secret(name):
        return HIDDEN
    if isinstance(value, dict) and level < _DEEPEST:
        return {key: _without_secrets(key, member, level + 1) for key, member in value.items()}
    if isinstance(value, list | tuple) and level < _DEEPEST:
        return [_without_secrets(None, member, level + 1) for member in value]
    return value


class JsonFormatter(logging.Formatter):
    """One JSON object a line. `reveal` adds the messages of exceptions, scrubbed, for development."""

    def __init__(self, *, reveal: bool = False) -> None:
        super().__init__()
        self._reveal = reveal
        self._encode = msgspec.json.Encoder(decimal_format="number", enc_hook=repr).encode

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {"ts": timestamp(record.created), "level": level_word(record)}
        line["msg"] = message_of(record)
        line["logger"] = record.name
        line.update(_fields_of(record))
        line.update(exception_of(record, reveal=self._reveal))
        if (traceback := users_traceback(record)) is not None:
            line["traceback"] = traceback
        try:
            return self._encode(line).decode()
        except (TypeError, ValueError, RecursionError):  # a user's value that JSON has no word for
            writable = {key: _plain(value if _is_plain(value) else repr(value)) for key, value in line.items()}
            return self._encode(writable).decode()


class HumanFormatter(logging.Formatter):
    """The same content as a line for people at a terminal."""

    def __init__(self, *, reveal: bool = False) -> None:
        super().__init__()
        self._reveal = reveal

    def format(self, record: logging.LogRecord) -> str:
        fields = {**_fields_of(record), **exception_of(record, reveal=self._reveal)}
        suffix = "".join(f" {key}={_one_line(str(value))}" for key, value in fields.items())
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        line = f"{clock} {level_word(record):<8} {_one_line(message_of(record))}{suffix}"
        traceback = users_traceback(record)
        return "\n".join([line, *(map(_one_line, traceback.splitlines()) if traceback else ())])


class BoundLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger that adds the same keys to every line; keys of the call itself win."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


def bind(logger: logging.Logger, **keys: object) -> BoundLogger:
    """`bind(logger, worker_id=..., queue=...)`. A forbidden key always raises: it stands in the code."""
    for key in keys.keys() - (ALLOWED_KEYS - _SET_BY_THE_FORMATTER):
        raise ForbiddenLogKey(f"{logger.name} may not bind {key!r}: it is not an allowed key")
    return BoundLogger(logger, keys)


def configure_logging(
    level: str, log_format: str = "auto", *, strict: bool, stream: TextIO | None = None, namespace: str | None = None
) -> AllowList:
    """Install the process's one handler on the root logger, replacing an earlier one. Returns its gate.

    `namespace` goes on every line of ours; without one it is that of the pod (`POD_NAMESPACE`)."""
    stream = stream or sys.stderr
    least = _LEVELS.get(level) or logging.getLevelNamesMapping()[level.upper()]
    human = log_format == "human" or (log_format == "auto" and stream.isatty())
    reveal = least <= logging.DEBUG
    handler = _EuterpeHandler(stream)
    handler.setFormatter(HumanFormatter(reveal=reveal) if human else JsonFormatter(reveal=reveal))
    gate = AllowList(strict=strict, namespace=_cut(namespace or os.environ.get("POD_NAMESPACE", "").strip()))
    handler.addFilter(gate)
    root = logging.getLogger()
    for old in [each for each in root.handlers if isinstance(each, _EuterpeHandler)]:
        root.removeHandler(old)
    ours = logging.getLogger("euterpe")
    for old in [each for each in ours.handlers if isinstance(each, _EuterpeHandler)]:
        ours.removeHandler(old)
    if any(_writes_to_console(each) for each in root.handlers):
        # The app has set up its own logging: its lines stay its own, ours are ours, and none is written twice.
        ours.addHandler(handler)
        ours.propagate = False
    else:
        root.addHandler(handler)
        root.setLevel(max(least, logging.INFO))  # what other libraries say at debug is theirs
        ours.propagate = True
    ours.setLevel(least)
    global _settings  # so is the root logger
    _settings = LogSettings(level, "human" if human else "json", strict, namespace)
    return gate


class LogSettings(msgspec.Struct, frozen=True):
    """How a process writes its log, for another one that shall write it alike."""

    level: str
    format: str
    strict: bool
    namespace: str | None


_settings: LogSettings | None = None


def current_settings() -> LogSettings | None:
    """None: this process writes no log of ours; the application may have one of its own."""
    return _settings


def configure_as(settings: LogSettings) -> None:
    configure_logging(settings.level, settings.format, strict=settings.strict, namespace=settings.namespace)


def _writes_to_console(handler: logging.Handler) -> bool:
    return isinstance(handler, logging.StreamHandler) and handler.stream in (sys.stderr, sys.stdout)


class _EuterpeHandler(logging.StreamHandler[TextIO]):
    """A class of its own, so that configuring twice finds and replaces only what we installed."""

    def handleError(self, record: logging.LogRecord) -> None:
        """The standard one prints the record with its arguments, which is just what must not be shown."""
        try:
            line = {"level": "error", "msg": "a log record could not be written", "logger": record.name}
            self.stream.write(msgspec.json.encode(line).decode() + self.terminator)
        except (OSError, ValueError):
            return  # the stream itself is gone: there is nowhere left to say it


def timestamp(at_s: float) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    seconds, milliseconds = divmod(int(at_s * 1000), 1000)
    return f"{_second(seconds)}.{milliseconds:03d}Z"


@lru_cache(maxsize=4)  # lines come in bursts, many to a second
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def level_word(record: logging.LogRecord) -> str:
    return record.levelname.lower()


def message_of(record: logging.LogRecord) -> str:
    """Our messages are constants, but for numbers. Those of loggers that quote what we run are cut and scrubbed; a
    user's are as they are."""
    if is_ours(record):
        return record.getMessage() if _harmless(record.args) else str(record.msg)
    text = record.getMessage()
    return scrub(text.partition("\n")[0]) if is_guarded(record) else text


def users_traceback(record: logging.LogRecord) -> str | None:
    """The whole traceback of a user's own record, message and all."""
    if is_guarded(record) or not record.exc_info or record.exc_info[1] is None:
        return None
    return logging.Formatter().formatException(record.exc_info)


def exception_of(record: logging.LogRecord, *, reveal: bool) -> dict[str, str]:
    """Type and place of the exception, if the record has one."""
    if not record.exc_info or record.exc_info[1] is None or not is_guarded(record):
        return {}
    error, trace = record.exc_info[1], record.exc_info[2]
    if isinstance(error, AttemptTrace):
        fields, place = {"exc_type": error.code}, " < ".join(error.places)
    else:
        fields, place = {"exc_type": _type_name(error)}, " < ".join(_places(trace))
    if place:
        fields["exc_at"] = place
    if reveal:
        fields["exc_msg"] = scrub(str(error))
    return fields


def scrub(text: str) -> str:
    """The text, cut, without what looks like a secret."""
    hidden = hide_secrets(_cut(text))
    return hidden if hidden.isascii() else hidden.encode(errors="replace").decode()


def hide_secrets(text: str) -> str:
    """The text without logins in URLs, bearer tokens, webhook secrets and `password=...`."""
    return _SECRET_SHAPES.sub(lambda found: "".join(part for part in found.groups() if part) + "***", text)


def _harmless(args: object) -> bool:
    """Whether the arguments of a message are numbers only: a number quotes no payload."""
    return not args or (isinstance(args, tuple) and all(isinstance(value, int | float | None) for value in args))


def _fields_of(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, "euterpe_fields", {})
    return fields


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float | None)


def _plain(value: object) -> object:
    if isinstance(value, str | UUID):
        text = _cut(str(value))
        # A lone surrogate cannot be written as UTF-8; better a question mark than a lost line.
        return text if text.isascii() else text.encode(errors="replace").decode()
    return value


def _cut(text: str) -> str:
    return text if len(text) <= _VALUE_LIMIT else text[: _VALUE_LIMIT - 1] + "…"


def _places(trace: TracebackType | None) -> Iterator[str]:
    """The innermost three frames, as `file:line` without the path of the machine."""
    frames = []
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
        frames.append(f"{name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return reversed(frames[-3:])


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _one_line(text: str) -> str:
    """Control characters would let a logged value draw on the terminal or forge a line."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
