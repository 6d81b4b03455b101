"""Rules that bind two keys together. What one key alone may be is said by its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from euterpe.config.settings import Config
from euterpe.model.duration import format_duration

MAX_QUEUE_LABELS: Final = 49
"""With `other` that makes fifty values, the most that a metric's label may have."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`broken` says what is wrong with the first of `keys`, or nothing."""

    keys: tuple[str, ...]
    broken: Callable[[Config], str]


def broken_rules(config: Config, unreadable: Set[str]) -> Iterator[tuple[Rule, str]]:
    """Every broken rule, but for those on an unreadable key: they would judge a default that nobody chose."""
    for rule in RULES:
        if unreadable.isdisjoint(rule.keys):
            complaint = rule.broken(config)
            if complaint:
                yield rule, complaint


def _fetch_wait(config: Config) -> str:
    wait_us, ttl_us = config.worker.brpoplpush_timeout_us, config.worker.heartbeat_ttl_us
    if 2 * wait_us <= ttl_us:
        return ""
    half = format_duration(ttl_us // 2)
    return f"{format_duration(wait_us)}; expected at most half of worker.heartbeat_ttl, {half}"


def _priorities(config: Config) -> str:
    missing = [name for name in config.worker.priorities if name not in config.worker.queues]
    return f"{', '.join(missing)} has no entry in worker.queues" if missing else ""


def _default_priority(config: Config) -> str:
    priority = config.producer.default_priority
    return "" if priority in config.worker.queues else f"{priority!r} has no entry in worker.queues"


def _high_priority(config: Config) -> str:
    if not config.producer.high_priority_exts or "high" in config.worker.queues:
        return ""
    return "needs a queue named high in worker.queues"


def _presets(config: Config) -> str:
    producer = config.producer
    if not producer.presets:
        return ""
    scheme = config.engine.url.partition(":")[0]
    if scheme in ("http", "https"):
        return f"transcoding jobs need a database or Redis; engine.url is {scheme}://"
    if producer.scan_dir and not config.transcode.local_root:
        return "need transcode.local_root, the folder that transcoding may read and write"
    root, scanned = Path(config.transcode.local_root).absolute(), Path(producer.scan_dir).absolute()
    if producer.scan_dir and not scanned.is_relative_to(root):
        return "need producer.scan_dir to be transcode.local_root or a folder below it"
    if producer.scan_dir and scanned.is_relative_to(root / producer.output_prefix):
        return "need producer.scan_dir to lie outside of producer.output_prefix, where the encodes go"
    return ""


def _backoff(config: Config) -> str:
    base_us, max_us = config.worker.backoff.base_us, config.worker.backoff.max_us
    if base_us <= max_us:
        return ""
    return f"{format_duration(base_us)}; expected at most worker.backoff.max, {format_duration(max_us)}"


def _outbox_poll(config: Config) -> str:
    low_us, high_us = config.outbox.poll_min_us, config.outbox.poll_max_us
    if low_us <= high_us:
        return ""
    return f"{format_duration(low_us)}; expected at most outbox.poll_max, {format_duration(high_us)}"


def _body(config: Config) -> str:
    body, payload = config.api.max_body_bytes, config.engine.max_payload_bytes
    return "" if body >= payload else f"{body}; expected at least engine.max_payload, {payload}"


def _ports(config: Config) -> str:
    port = config.observability.metrics_port
    return f"{port} is api.port too; choose another" if port and port == config.api.port else ""


def _transport(config: Config) -> str:
    scheme = config.engine.url.partition(":")[0]
    if config.transport.kind == "none" or scheme not in ("redis", "rediss", "http", "https"):
        return ""
    return f"'streams' carries hints for a database; engine.url is {scheme}://, so leave it at none"


def _labels(config: Config) -> str:
    count = len(config.queue_labels)
    if count <= MAX_QUEUE_LABELS:
        return ""
    return f"makes {count} names with the worker's own queues; expected at most {MAX_QUEUE_LABELS}"


RULES: Final = (
    Rule(("worker.brpoplpush_timeout", "worker.heartbeat_ttl"), _fetch_wait),
    Rule(("worker.priorities", "worker.queues"), _priorities),
    Rule(("worker.backoff.base", "worker.backoff.max"), _backoff),
    Rule(("producer.default_priority", "worker.queues"), _default_priority),
    Rule(("producer.high_priority_exts", "worker.queues"), _high_priority),
    Rule(
        (
            "producer.presets",
            "producer.scan_dir",
            "producer.output_prefix",
            "transcode.local_root",
            "engine.url",
        ),
        _presets,
    ),
    Rule(("observability.queues", "worker.consume", "worker.queues", "engine.url"), _labels),
    Rule(("observability.metrics_port", "api.port"), _ports),
    Rule(("transport.kind", "engine.url"), _transport),
    Rule(("outbox.poll_min", "outbox.poll_max"), _outbox_poll),
    Rule(("api.max_body", "engine.max_payload"), _body),
)
