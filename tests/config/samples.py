"""One good, non-default value and some bad ones for every key: the tests' own list, written by hand from the
specification and not from the code that it checks."""

from __future__ import annotations

from typing import NamedTuple


class Sample(NamedTuple):
    in_file: object
    in_environment: str
    attribute: str
    loaded: object
    bad: tuple[object, ...]


SECOND = 1_000_000
MINUTE = 60 * SECOND
DAY = 86_400 * SECOND

_NOT_A_DURATION: tuple[object, ...] = ("soon", "5", -1, [], "1m1h", True)
_NOT_A_COUNT: tuple[object, ...] = (-1, 1.5, "many", True, [3])
_NOT_A_NAME: tuple[object, ...] = ("", " padded ", 7, [], "nul\x00")
_NOT_A_LIST: tuple[object, ...] = ("a", [""], [1], ["a", "a"], {"a": "b"})
_NOT_A_FLAG: tuple[object, ...] = ("perhaps", 3, [])
_NOT_A_PORT: tuple[object, ...] = (-1, 65_536, "http", 80.5, True)


def _duration(key: str, bad: tuple[object, ...] = (), written: str = "1m30s") -> Sample:
    return Sample(written, "90s", key + "_us", 90 * SECOND, (*_NOT_A_DURATION, *bad))


# The YAML of the fifth document, key for key.
OF_THE_DOCUMENT: dict[str, Sample] = {
    "redis.addr": Sample(
        "[::1]:7000", "[::1]:7000", "redis.addr", "[::1]:7000", ("host", "host:0", "h:70000", 6379, "a:b:1")
    ),
    "redis.username": Sample("ada", "ada", "redis.username", "ada", (7, [], True)),
    "redis.password": Sample("canary-1", "canary-1", "redis.password", "canary-1", (31337, ["x"], True)),
    "redis.db": Sample(3, "3", "redis.db", 3, _NOT_A_COUNT),
    "redis.pool_size_multiplier": Sample(4, "4", "redis.pool_size_multiplier", 4, (*_NOT_A_COUNT, 0)),
    "redis.min_idle_conns": Sample(0, "0", "redis.min_idle_conns", 0, _NOT_A_COUNT),
    "redis.dial_timeout": _duration("redis.dial_timeout", (0,)),
    "redis.read_timeout": _duration("redis.read_timeout", (0,)),
    "redis.write_timeout": _duration("redis.write_timeout", (0,)),
    "redis.max_retries": Sample(0, "0", "redis.max_retries", 0, _NOT_A_COUNT),
    "worker.count": Sample(64, "64", "worker.count", 64, (*_NOT_A_COUNT, 0)),
    "worker.heartbeat_ttl": _duration("worker.heartbeat_ttl", ("4999ms", 4.9)),
    "worker.max_retries": Sample(5, "5", "worker.max_retries", 5, _NOT_A_COUNT),
    "worker.backoff.base": Sample("2s", "2s", "worker.backoff.base_us", 2 * SECOND, (*_NOT_A_DURATION, 0)),
    "worker.backoff.max": Sample("10m", "10m", "worker.backoff.max_us", 10 * MINUTE, (*_NOT_A_DURATION, 0)),
    "worker.priorities": Sample(
        ["urgent", "slow"], "urgent, slow", "worker.priorities", ("urgent", "slow"), (*_NOT_A_LIST, [])
    ),
    "worker.queues": Sample(
        {"urgent": "q1", "slow": "q2", "high": "q3"},
        '{"urgent": "q1", "slow": "q2", "high": "q3"}',
        "worker.queues",
        {"urgent": "q1", "slow": "q2", "high": "q3"},
        ({}, ["q1"], "q1", {"urgent": 3}, {"urgent": ""}, {3: "q"}),
    ),
    "worker.processing_list_pattern": Sample(
        "p:%s", "p:%s", "worker.processing_list_pattern", "p:%s", ("no place", "%s:%s", "%d:%s", "", 3)
    ),
    "worker.heartbeat_key_pattern": Sample(
        "h:%s", "h:%s", "worker.heartbeat_key_pattern", "h:%s", ("no place", "%s:%s", "100%", "", 3)
    ),
    "worker.completed_list": Sample("done", "done", "worker.completed_list", "done", _NOT_A_NAME),
    "worker.dead_letter_list": Sample("dead", "dead", "worker.dead_letter_list", "dead", _NOT_A_NAME),
    "worker.brpoplpush_timeout": Sample(
        "250ms", "250ms", "worker.brpoplpush_timeout_us", 250_000, (*_NOT_A_DURATION, 0)
    ),
    "producer.scan_dir": Sample("/srv/o/in", "/srv/o/in", "producer.scan_dir", "/srv/o/in", (7, [], "nul\x00")),
    "producer.include_globs": Sample(["*.wav"], "*.wav", "producer.include_globs", ("*.wav",), (*_NOT_A_LIST, [])),
    "producer.exclude_globs": Sample([], "[]", "producer.exclude_globs", (), _NOT_A_LIST),
    "producer.default_priority": Sample("slow", "slow", "producer.default_priority", "slow", _NOT_A_NAME),
    "producer.high_priority_exts": Sample(
        [".wav", ".flac"],
        ".wav,.flac",
        "producer.high_priority_exts",
        (".wav", ".flac"),
        (["wav"], ".wav", [""], [3]),
    ),
    "producer.rate_limit_per_sec": Sample(0, "0", "producer.rate_limit_per_sec", 0, _NOT_A_COUNT),
    "producer.rate_limit_key": Sample("limit", "limit", "producer.rate_limit_key", "limit", _NOT_A_NAME),
    "circuit_breaker.failure_threshold": Sample(
        0.75, "0.75", "circuit_breaker.failure_threshold", 0.75, (0, 1.01, -0.5, "half", True, float("nan"))
    ),
    "circuit_breaker.window": _duration("circuit_breaker.window", (0,), written="90s"),
    "circuit_breaker.cooldown_period": _duration("circuit_breaker.cooldown_period", (0,)),
    "circuit_breaker.min_samples": Sample(1, "1", "circuit_breaker.min_samples", 1, (*_NOT_A_COUNT, 0)),
    "observability.metrics_port": Sample(0, "0", "observability.metrics_port", 0, _NOT_A_PORT),
    "observability.log_level": Sample(
        "debug", "debug", "observability.log_level", "debug", ("loud", "INFO", 10, False, "")
    ),
    "observability.queue_sample_interval": _duration("observability.queue_sample_interval", (0,)),
    "observability.tracing.enabled": Sample(True, "1", "observability.tracing.enabled", True, _NOT_A_FLAG),
    "observability.tracing.endpoint": Sample(
        "https://otel:4318",
        "https://otel:4318",
        "observability.tracing.endpoint",
        "https://otel:4318",
        ("otel:4318", "ftp://x", 7),
    ),
}

# The sections that the house added.
OF_THE_HOUSE: dict[str, Sample] = {
    "worker.consume": Sample(["media", "mail"], "media,mail", "worker.consume", ("media", "mail"), (*_NOT_A_LIST, [])),
    "worker.grace": _duration("worker.grace"),
    "worker.poll_interval": _duration("worker.poll_interval", (0,)),
    "worker.sweep_interval": _duration("worker.sweep_interval", (0,)),
    "worker.requester_share": Sample(0.25, "0.25", "worker.requester_share", 0.25, (0, 1.5, "half", True)),
    "worker.log_lines": Sample(20, "20", "worker.log_lines", 20, (*_NOT_A_COUNT, 1001)),
    "producer.scan_interval": _duration("producer.scan_interval", (0,)),
    "producer.settle": _duration("producer.settle"),
    "producer.job_type": Sample("encode", "encode", "producer.job_type", "encode", _NOT_A_NAME),
    "producer.queue": Sample("media", "media", "producer.queue", "media", _NOT_A_NAME),
    "producer.presets": Sample(["flac"], "flac", "producer.presets", ("flac",), _NOT_A_LIST),
    "producer.output_prefix": Sample(
        "a/b/", "a/b/", "producer.output_prefix", "a/b/", ("a", "/a/", "../", "a/../b/", "./", "", 7)
    ),
    "circuit_breaker.enabled": Sample(False, "0", "circuit_breaker.enabled", False, _NOT_A_FLAG),
    "observability.log_format": Sample("json", "json", "observability.log_format", "json", ("xml", 1, "")),
    "observability.namespace": Sample("media", "media", "observability.namespace", "media", (1, ["media"])),
    "observability.queues": Sample(["extra"], "extra", "observability.queues", ("extra",), _NOT_A_LIST),
    "engine.url": Sample(
        "postgresql://u:canary-2@db/x",
        "postgresql://u:canary-2@db/x",
        "engine.url",
        "postgresql://u:canary-2@db/x",
        ("mysql://u:canary-2@db", "canary-2", 7, "http://", "postgresql://u:canary-2@db:port/x"),
    ),
    "engine.max_payload": Sample(
        "2MB", "2MB", "engine.max_payload_bytes", 2_000_000, (0, "17MB", 16_000_001, "big", "1mb", True)
    ),
    "engine.start_timeout": _duration("engine.start_timeout"),
    "api.host": Sample("10.0.0.1", "10.0.0.1", "api.host", "10.0.0.1", _NOT_A_NAME),
    "api.port": Sample(9000, "9000", "api.port", 9000, _NOT_A_PORT),
    "api.max_body": Sample("8MiB", "8MiB", "api.max_body_bytes", 8 * 1024**2, (0, "big", -5, True)),
    "api.rate_limit": Sample(50, "50", "api.rate_limit", 50, (-1, "fast", 1_000_001, True)),
    "api.rate_burst": Sample(10, "10", "api.rate_burst", 10, (*_NOT_A_COUNT, 0)),
    "api.max_connections": Sample(500, "500", "api.max_connections", 500, (*_NOT_A_COUNT, 15)),
    "api.allowed_hosts": Sample(["q.example"], "q.example", "api.allowed_hosts", ("q.example",), _NOT_A_LIST),
    "quotas.waiting_jobs": Sample(5, "5", "quotas.waiting_jobs", 5, _NOT_A_COUNT),
    "quotas.waiting_bytes": Sample("2GB", "2GB", "quotas.waiting_bytes", 2 * 10**9, ("huge", True, -1)),
    "quotas.idempotency_keys": Sample(5, "5", "quotas.idempotency_keys", 5, _NOT_A_COUNT),
    "quotas.requests": Sample(5, "5", "quotas.requests", 5, (*_NOT_A_COUNT, 1_000_001)),
    "transport.kind": Sample("streams", "streams", "transport.kind", "streams", ("kafka", False, "")),
    "outbox.poll_min": Sample("1s", "1s", "outbox.poll_min_us", SECOND, (*_NOT_A_DURATION, 0)),
    "outbox.poll_max": Sample("2s", "2s", "outbox.poll_max_us", 2 * SECOND, (*_NOT_A_DURATION, 0)),
    "outbox.batch": Sample(25, "25", "outbox.batch", 25, (*_NOT_A_COUNT, 0, 26)),
    "outbox.concurrency": Sample(50, "50", "outbox.concurrency", 50, (*_NOT_A_COUNT, 0)),
    "outbox.max_attempts": Sample(3, "3", "outbox.max_attempts", 3, (*_NOT_A_COUNT, 0)),
    "transcode.local_root": Sample("/srv/o", "/srv/o", "transcode.local_root", "/srv/o", (7, [], True)),
    "transcode.enabled": Sample(True, "true", "transcode.enabled", True, _NOT_A_FLAG),
    "transcode.work_dir": Sample("/srv/w", "/srv/w", "transcode.work_dir", "/srv/w", _NOT_A_NAME),
    "transcode.queue": Sample("media", "media", "transcode.queue", "media", _NOT_A_NAME),
    "transcode.concurrency": Sample(2, "2", "transcode.concurrency", 2, (*_NOT_A_COUNT, 1_001)),
    "transcode.max_job_bytes": Sample("3GB", "3GB", "transcode.max_job_bytes", 3 * 10**9, (0, "huge", True)),
    "transcode.min_free_bytes": Sample("0B", "0B", "transcode.min_free_bytes", 0, (-1, "huge", True)),
    "transcode.max_output_bytes": Sample("2GB", "2GB", "transcode.max_output_bytes", 2 * 10**9, (0, "huge", True)),
    "transcode.max_duration": Sample("1h", "1h", "transcode.max_duration_us", 3600 * SECOND, (*_NOT_A_DURATION, 0)),
    "transcode.refresh_attempts": Sample(3, "3", "transcode.refresh_attempts", 3, (*_NOT_A_COUNT, 0)),
    "transcode.public_url": Sample(
        "https://e.example", "https://e.example", "transcode.public_url", "https://e.example", (7, [], True)
    ),
    "transcode.max_source_bytes": Sample("2GB", "2GB", "transcode.max_source_bytes", 2 * 10**9, (0, "huge", True)),
    "egress.allow_private": Sample(True, "true", "egress.allow_private", True, _NOT_A_FLAG),
    "egress.allow_hosts": Sample(["hooks.local"], "hooks.local", "egress.allow_hosts", ("hooks.local",), _NOT_A_LIST),
    "retention.completed": Sample("1d", "1d", "retention.completed_us", DAY, _NOT_A_DURATION),
    "retention.failed": Sample("1d", "1d", "retention.failed_us", DAY, _NOT_A_DURATION),
    "retention.dead_letter": Sample("1d", "1d", "retention.dead_letter_us", DAY, _NOT_A_DURATION),
    "retention.cancelled": Sample("1d", "1d", "retention.cancelled_us", DAY, _NOT_A_DURATION),
    "retention.events": Sample("1d", "1d", "retention.events_us", DAY, _NOT_A_DURATION),
    "retention.tombstones": Sample("1d", "1d", "retention.tombstones_us", DAY, _NOT_A_DURATION),
    "retention.idempotency": Sample("2d", "2d", "retention.idempotency_us", 2 * DAY, (*_NOT_A_DURATION, "999ms")),
}

EVERY_KEY = {**OF_THE_DOCUMENT, **OF_THE_HOUSE}


def nested(flat: dict[str, object]) -> dict[str, object]:
    """{"worker.count": 1} -> {"worker": {"count": 1}}"""
    document: dict[str, object] = {}
    for key, value in flat.items():
        *sections, last = key.split(".")
        inner = document
        for section in sections:
            inner = inner.setdefault(section, {})  # type: ignore[assignment]
        inner[last] = value
    return document


def attribute(config: object, dotted: str) -> object:
    for name in dotted.split("."):
        config = getattr(config, name)
    return config
