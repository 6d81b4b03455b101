"""The settings of the engine, and with them the names of its keys: which list a job waits in, what else there is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from euterpe.model.duration import format_duration, parse_duration_us
from euterpe.model.errors import InvalidInput
from euterpe.model.priority import PRIORITY_NAMES
from euterpe.model.submitting.submission import DEFAULT_QUEUE

PREFIX: Final = "jobqueue"
_LEVELS: Final = {name: level for level, name in enumerate(PRIORITY_NAMES)}
_LIST_OPTION: Final = "list."


class ListSettings(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What `worker.*` of the configuration says, with its defaults."""

    prefix: str = PREFIX
    priorities: tuple[str, ...] = ("high", "low")
    lists: Mapping[str, str] = msgspec.field(
        default_factory=lambda: {"high": f"{PREFIX}:high_priority", "low": f"{PREFIX}:low_priority"}
    )
    """The list of each priority of the default queue; `worker.queues`."""
    processing_list_pattern: str = f"{PREFIX}:worker:%s:processing"
    heartbeat_key_pattern: str = "worker:hb:%s"
    completed_list: str = f"{PREFIX}:completed"
    dead_letter_list: str = f"{PREFIX}:dead_letter"
    brpoplpush_timeout_us: int = 1_000_000
    """How long a worker that has nothing to do waits at its lists."""
    max_retries: int = 3
    backoff_base_us: int = 1_000_000
    backoff_max_us: int = 3_600_000_000
    """These three are for jobs that say nothing of it themselves: those that other programs put into the lists."""

    @classmethod
    def with_prefix(cls, prefix: str) -> ListSettings:
        """Every name under a prefix of its own, so that installations can share a database."""
        if prefix == PREFIX:
            return cls()
        return cls(
            prefix=prefix,
            lists={"high": f"{prefix}:high_priority", "low": f"{prefix}:low_priority"},
            processing_list_pattern=f"{prefix}:worker:%s:processing",
            heartbeat_key_pattern=f"{prefix}:worker:hb:%s",
            completed_list=f"{prefix}:completed",
            dead_letter_list=f"{prefix}:dead_letter",
        )

    @cached_property
    def script_keys(self) -> tuple[str, ...]:
        """What every script is given as KEYS."""
        return (
            self.prefix,
            self.completed_list,
            self.dead_letter_list,
            *_halves(self.processing_list_pattern),
            *_halves(self.heartbeat_key_pattern),
        )

    def job(self, job_id: str) -> str:
        return f"{self.prefix}:job:{job_id}"

    def list_for(self, queue: str, priority: int) -> str:
        """Where a job of this queue and priority waits."""
        if queue in self._configured:
            return queue
        name = PRIORITY_NAMES[priority]
        if queue == DEFAULT_QUEUE:
            return self.lists.get(name) or f"{self.prefix}:{name}_priority"
        return f"{self.prefix}:queue:{queue}:{name}"

    def lists_of(self, queue: str) -> tuple[str, ...]:
        """The lists of a queue, the most urgent first. A queue that is itself a configured list has that one."""
        if queue in self._configured:
            return (queue,)
        if queue == DEFAULT_QUEUE:
            return self._default_lists
        return tuple(self.list_for(queue, level) for level in range(len(PRIORITY_NAMES)))

    @cached_property
    def _configured(self) -> frozenset[str]:
        return frozenset(self.lists.values())

    @cached_property
    def _default_lists(self) -> tuple[str, ...]:
        """The configured priorities in their order, and between them our own that the configuration does not name."""
        names = list(self.priorities)
        for name, level in _LEVELS.items():
            if name not in names and name not in self.lists:
                later = (i for i, other in enumerate(names) if _LEVELS.get(other, -1) > level)
                names.insert(next(later, len(names)), name)
        return tuple(self.lists.get(name) or f"{self.prefix}:{name}_priority" for name in names)

    def priority_name(self, list_key: str, level: int) -> str:
        """What a job's entry says of its priority."""
        return self._names.get(list_key) or PRIORITY_NAMES[level]

    @cached_property
    def _names(self) -> dict[str, str]:
        return {list_key: name for name, list_key in self.lists.items()}

    def is_configured(self, list_key: str) -> bool:
        """Whether the configuration names it, so that it is a queue of its own."""
        return list_key in self._configured

    def claimed_as(self, queue: str) -> str:
        """The queue that workers are told to claim. A list of the configuration is one of the default queue's."""
        return DEFAULT_QUEUE if queue in self._configured else queue

    def named_list(self, priority: str) -> str | None:
        """The list of a priority that another program's job names."""
        return self.lists.get(priority)

    def processing_list(self, worker_id: str) -> str:
        """What this worker holds."""
        before, after = _halves(self.processing_list_pattern)
        return f"{before}{worker_id}{after}"

    def heartbeat(self, worker_id: str) -> str:
        """Until when the leases of this worker's jobs are renewed."""
        before, after = _halves(self.heartbeat_key_pattern)
        return f"{before}{worker_id}{after}"

    def worker_of(self, processing_list: str) -> str | None:
        """Whose processing list this is; None if it is none."""
        before, after = _halves(self.processing_list_pattern)
        if not processing_list.startswith(before) or not processing_list.endswith(after):
            return None
        worker_id = processing_list[len(before) : len(processing_list) - len(after)]
        return worker_id or None

    @cached_property
    def processing_glob(self) -> str:
        before, after = (_escaped(half) for half in _halves(self.processing_list_pattern))
        return f"{before}*{after}"


def _halves(pattern: str) -> tuple[str, str]:
    before, _, after = pattern.partition("%s")
    return before.replace("%%", "%"), after.replace("%%", "%")


def _escaped(text: str) -> str:
    return "".join(f"\\{c}" if c in "*?[]\\^-" else c for c in text)


_TEXTS: Final = ("processing_list_pattern", "heartbeat_key_pattern", "completed_list", "dead_letter_list")
_DURATIONS: Final = ("brpoplpush_timeout_us", "backoff_base_us", "backoff_max_us")


def with_settings(url: str, settings: ListSettings) -> str:
    """The URL with these settings in its query: the form in which they reach another process. What the URL says
    itself stays, and its lists and priorities go together."""
    plain, said = _options(url)
    standard = ListSettings.with_prefix(settings.prefix)
    options = {} if settings.prefix == PREFIX else {"prefix": settings.prefix}
    for name in _TEXTS:
        if getattr(settings, name) != getattr(standard, name):
            options[name] = getattr(settings, name)
    for name in _DURATIONS:
        if getattr(settings, name) != getattr(standard, name):
            options[name.removesuffix("_us")] = format_duration(getattr(settings, name))
    if settings.max_retries != standard.max_retries:
        options["max_retries"] = str(settings.max_retries)
    if not any(name == "priorities" or name.startswith(_LIST_OPTION) for name in said):
        if settings.priorities != standard.priorities:
            options["priorities"] = ",".join(settings.priorities)
        if settings.lists != standard.lists:
            options |= {f"{_LIST_OPTION}{name}": value for name, value in settings.lists.items()}
    options |= said
    if not options:
        return plain
    parts = urlsplit(plain)
    query = "&".join(filter(None, (parts.query, urlencode(options))))
    # By hand: urlunsplit drops the slashes of an address that is left to the defaults.
    return f"{parts.scheme}://{parts.netloc}{parts.path}?{query}"


def settings_from(url: str) -> tuple[str, ListSettings]:
    """The URL as the Redis client takes it, and the settings that stood in its query."""
    plain, ours = _options(url)
    if not ours:
        return plain, ListSettings()
    said: dict[str, object] = {name: ours[name] for name in _TEXTS if name in ours}
    for name in _DURATIONS:
        if (text := ours.get(name.removesuffix("_us"))) is not None:
            said[name] = parse_duration_us(text, name.removesuffix("_us"))
    if "max_retries" in ours:
        if not ours["max_retries"].isdecimal():
            raise InvalidInput("url", f"its option max_retries is {ours['max_retries']!r}; write a whole number")
        said["max_retries"] = int(ours["max_retries"])
    if "priorities" in ours:
        said["priorities"] = tuple(ours["priorities"].split(","))
    if lists := {name.removeprefix(_LIST_OPTION): key for name, key in ours.items() if name.startswith(_LIST_OPTION)}:
        said["lists"] = lists
    settings = msgspec.structs.replace(ListSettings.with_prefix(ours.get("prefix", PREFIX)), **said)
    _check(settings)
    return plain, settings


def _check(settings: ListSettings) -> None:
    for name in ("processing_list_pattern", "heartbeat_key_pattern"):
        if getattr(settings, name).count("%s") != 1:
            raise InvalidInput("url", f"its option {name} must have one %s, where the worker's id goes")
    if missing := [name for name in settings.priorities if name not in settings.lists]:
        raise InvalidInput("url", f"its option priorities names {', '.join(missing)}, which has no list")


def _options(url: str) -> tuple[str, dict[str, str]]:
    parts = urlsplit(url)
    names = {*_TEXTS, *(name.removesuffix("_us") for name in _DURATIONS), "prefix", "priorities", "max_retries"}
    ours: dict[str, str] = {}
    rest: list[tuple[str, str]] = []
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name in names or name.startswith(_LIST_OPTION):
            if not value:
                raise InvalidInput("url", f"its option {name} is empty")
            ours[name] = value
        else:
            rest.append((name, value))
    # By hand: urlunsplit drops the slashes of an address that is left to the defaults.
    query = f"?{urlencode(rest)}" if rest else ""
    return f"{parts.scheme}://{parts.netloc}{parts.path}{query}", ours
