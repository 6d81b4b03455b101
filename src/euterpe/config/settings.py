"""Every key of the configuration with its default and its meaning.

The sections `redis` to `observability` are the YAML of the file pipeline's specification (004), key for key; the
others are the house's own. Durations are kept in microseconds, which is why their attributes end in `_us`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from euterpe.config.declaration import Section, setting
from euterpe.config.value_types import (
    address,
    choice,
    duration,
    flag,
    flag_or_auto,
    key_pattern,
    matching,
    name,
    name_map,
    names,
    port,
    share,
    size,
    text,
    url,
    whole,
)
from euterpe.model.claims.attempt_log import LINES_CEILING, LINES_KEPT
from euterpe.model.duration import SECOND_US
from euterpe.model.retention import Retention
from euterpe.model.submitting.submission import IDEMPOTENCY_WINDOW_US, PAYLOAD_CEILING, PAYLOAD_LIMIT

MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US

ENGINE_SCHEMES = ("sqlite", "postgresql", "postgres", "libsql", "redis", "rediss", "http", "https")
LOG_LEVELS = ("debug", "info", "warn", "warning", "error", "critical")


@dataclass(frozen=True, slots=True, repr=False)
class RedisConfig(Section):
    """The Redis server, where one is used: the Redis-list engine and the `streams` transport."""

    addr: str = setting(address(), "127.0.0.1:6379", "Where the server listens.")
    username: str = setting(text(), "", "Its user; empty for none.")
    password: str = setting(text(), "", "Its password; empty for none.", secret=True)
    db: int = setting(whole(0), 0, "The number of the database.")
    pool_size_multiplier: int = setting(whole(1), 10, "Connections at most, per CPU core.")
    min_idle_conns: int = setting(whole(0), 5, "Connections kept open while nothing happens.")
    dial_timeout_us: int = setting(duration(1_000), 5 * SECOND_US, "How long connecting may take.")
    read_timeout_us: int = setting(duration(1_000), 3 * SECOND_US, "How long an answer may take.")
    write_timeout_us: int = setting(duration(1_000), 3 * SECOND_US, "How long sending may take.")
    max_retries: int = setting(whole(0), 3, "How often a command is tried again after a network error.")


@dataclass(frozen=True, slots=True, repr=False)
class BackoffConfig(Section):
    """The wait between attempts doubles from `base` and never exceeds `max`."""

    base_us: int = setting(duration(1_000), SECOND_US, "The wait before the first retry.")
    max_us: int = setting(duration(1_000), HOUR_US, "The longest wait.")


@dataclass(frozen=True, slots=True, repr=False)
class WorkerConfig(Section):
    """How a worker takes and runs jobs. The keys from `max_retries` on are for the Redis-list engine."""

    count: int = setting(whole(1), 100, "Jobs that one process runs at the same time.")
    heartbeat_ttl_us: int = setting(
        duration(5 * SECOND_US),
        MINUTE_US,
        "The lease: how long a silent worker keeps its jobs, on every engine.",
    )
    consume: tuple[str, ...] = setting(
        names(at_least=1),
        ("default",),
        "Queues to take jobs from, in order of preference. On Redis lists `default` has the lists of `worker.queues`.",
    )
    grace_us: int = setting(
        duration(), 30 * SECOND_US, "After SIGTERM, how long running jobs may go on before they are released."
    )
    poll_interval_us: int = setting(
        duration(10_000), SECOND_US, "How often an idle worker looks for jobs when no wake-up reaches it."
    )
    sweep_interval_us: int = setting(
        duration(100_000),
        SECOND_US,
        "How often due jobs are looked for (jittered); lost and over-age ones every third time.",
    )
    log_lines: int = setting(
        whole(0, LINES_CEILING),
        LINES_KEPT,
        "Of what a handler logs, so many lines are kept with its attempt, the newest, and at most 16 KB; 0 for none.",
    )
    requester_share: float = setting(
        share(),
        0.5,
        "How much of a worker's slots, and of the places of a type with a `worker_limit`, one requester may hold "
        "while jobs of others wait; 1: all. Jobs that the application submits itself are not bounded.",
    )
    max_retries: int = setting(whole(0), 3, "Redis lists: retries before a job goes to the dead-letter list.")
    backoff: BackoffConfig = field(default_factory=BackoffConfig)
    priorities: tuple[str, ...] = setting(
        names(at_least=1), ("high", "low"), "Redis lists: the priorities to fetch, most urgent first."
    )
    queues: Mapping[str, str] = setting(
        name_map(),
        {"high": "jobqueue:high_priority", "low": "jobqueue:low_priority"},
        "Redis lists: the list of each priority.",
    )
    processing_list_pattern: str = setting(
        key_pattern(), "jobqueue:worker:%s:processing", "The list of what a worker has in hand; %s is its id."
    )
    heartbeat_key_pattern: str = setting(
        key_pattern(), "worker:hb:%s", "The key that says a worker is alive; %s is its id."
    )
    completed_list: str = setting(name(), "jobqueue:completed", "The list of finished jobs.")
    dead_letter_list: str = setting(name(), "jobqueue:dead_letter", "The list of jobs that were given up.")
    brpoplpush_timeout_us: int = setting(
        duration(1_000), SECOND_US, "How long one fetch waits at one list; at most half of `heartbeat_ttl`."
    )


@dataclass(frozen=True, slots=True, repr=False)
class ProducerConfig(Section):
    """The producer role: files found in a folder become jobs."""

    scan_dir: str = setting(
        text(), "", "The folder to scan; empty for no producer. Symbolic links that lead out of it are refused."
    )
    include_globs: tuple[str, ...] = setting(
        names(at_least=1),
        ("**/*",),
        "Files to take. A pattern without a slash is for names in every folder. With `presets`, `**/*` takes files "
        "with the extension of a sound or a video.",
    )
    exclude_globs: tuple[str, ...] = setting(names(), ("**/*.tmp", "**/.DS_Store"), "Files to leave out.")
    default_priority: str = setting(name(), "low", "The priority of a file; a key of `worker.queues`.")
    high_priority_exts: tuple[str, ...] = setting(
        names(item=matching(r"\.[^\s/]+", "an extension with its dot, such as .wav")),
        (),
        "Extensions whose files get the priority `high`.",
    )
    rate_limit_per_sec: int = setting(whole(0), 100, "Jobs a second over all producers; 0 for no limit.")
    rate_limit_key: str = setting(
        name(),
        "jobqueue:rate_limit:producer",
        "The name that the limit is kept under, in Redis or in the database; producers with the same one share it.",
    )
    scan_interval_us: int = setting(
        duration(100_000),
        10 * SECOND_US,
        "How often the whole folder is looked through, besides what is told of changes.",
    )
    settle_us: int = setting(
        duration(), 2 * SECOND_US, "How long a file must stay the same before it is taken: half-written ones are not."
    )
    job_type: str = setting(name(), "process_file", "The type of a file's job, where no presets are named.")
    queue: str = setting(name(), "default", "The queue of a file's job, where no presets are named (not Redis lists).")
    presets: tuple[str, ...] = setting(
        names(), (), "Transcoding presets: each file is encoded so. The folder must lie below `transcode.local_root`."
    )
    output_prefix: str = setting(
        matching(
            r"(?:(?!\.\.?/)[^/]+/)+", "a folder below transcode.local_root that ends in a slash, such as encodes/"
        ),
        "encodes/",
        "Where encodes go, below `transcode.local_root`.",
    )


@dataclass(frozen=True, slots=True, repr=False)
class CircuitBreakerConfig(Section):
    """When a worker leaves jobs alone that keep failing, and the outbox stops calling such a receiver."""

    enabled: bool = setting(flag(), True, "Whether workers leave such jobs alone; receivers have theirs in any case.")
    failure_threshold: float = setting(share(), 0.5, "The share of failures at which it opens.")
    window_us: int = setting(duration(1_000), MINUTE_US, "How far back results count.")
    cooldown_period_us: int = setting(duration(1_000), 30 * SECOND_US, "How long it stays open before one probe.")
    min_samples: int = setting(whole(1), 20, "With fewer results in the window it never opens.")


@dataclass(frozen=True, slots=True, repr=False)
class TracingConfig(Section):
    """Spans of jobs, sent by OTLP over HTTP."""

    enabled: bool = setting(flag(), False, "Whether spans are made and sent.")
    endpoint: str = setting(
        url("http", "https"),
        "http://127.0.0.1:4318/v1/traces",
        "The collector; without a path, `/v1/traces` is added.",
        secret=True,
    )


@dataclass(frozen=True, slots=True, repr=False)
class ObservabilityConfig(Section):
    """Logs, metrics and traces."""

    metrics_port: int = setting(port(), 9477, "Where roles without the API serve /metrics; 0 for nowhere.")
    log_level: str = setting(choice(*LOG_LEVELS), "info", "The least level that is logged.")
    log_format: str = setting(
        choice("auto", "json", "human"),
        "auto",
        "`auto` is lines for people at a terminal and JSON everywhere else.",
    )
    namespace: str = setting(text(), "", "On every log line of ours; empty for the pod's (`POD_NAMESPACE`).")
    queue_sample_interval_us: int = setting(
        duration(100_000), 10 * SECOND_US, "How often lengths and ages of queues are measured."
    )
    queues: tuple[str, ...] = setting(
        names(), (), "Further queue names that metrics may show; others are counted as `other`."
    )
    tracing: TracingConfig = field(default_factory=TracingConfig)


@dataclass(frozen=True, slots=True, repr=False)
class EngineConfig(Section):
    """Where the jobs live."""

    url: str = setting(
        url(*ENGINE_SCHEMES), "sqlite:///.euterpe/jobs.db", "The database, or a control plane.", secret=True
    )
    max_payload_bytes: int = setting(
        size(1, PAYLOAD_CEILING), PAYLOAD_LIMIT, "The largest payload of a job.", key="max_payload"
    )
    start_timeout_us: int = setting(
        duration(), 30 * SECOND_US, "How long a role waits at its start for a database server that is not ready yet."
    )


@dataclass(frozen=True, slots=True, repr=False)
class ApiConfig(Section):
    """The HTTP side."""

    host: str = setting(name(), "127.0.0.1", "The address to listen on.")
    port: int = setting(port(), 8080, "The port; 0 takes a free one.")
    max_body_bytes: int = setting(
        size(1_000), 4_000_000, "The largest request body; a larger one gets 413.", key="max_body"
    )
    rate_limit: int = setting(
        whole(0, 1_000_000), 0, "Requests a second for each key, in each process; 0: no limit. One more gets 429."
    )
    rate_burst: int = setting(whole(1, 1_000_000), 100, "Requests that a key may send at once after a quiet while.")
    max_connections: int = setting(
        whole(16, 1_000_000),
        4_000,
        "Open connections, or as many as the limit of open files leaves; then idle ones are closed for new ones.",
    )
    allowed_hosts: tuple[str, ...] = setting(
        names(),
        (),
        "Names that clients may call this server by, besides loopback's. With none, a server on loopback answers to "
        "loopback's names alone (others get 421), and a server on another address to every name.",
    )


@dataclass(frozen=True, slots=True, repr=False)
class QuotasConfig(Section):
    """What one requester may have and do over HTTP; 0 is no limit. More gets 429."""

    waiting_jobs: int = setting(whole(0), 0, "Jobs that have not ended.")
    waiting_bytes: int = setting(size(0), 0, "Payloads of jobs that have not ended.")
    idempotency_keys: int = setting(whole(0), 0, "Idempotency keys that are remembered.")
    requests: int = setting(whole(0, 1_000_000), 0, "Requests a second for all keys of a requester, in each process.")


@dataclass(frozen=True, slots=True, repr=False)
class TransportConfig(Section):
    """What carries wake-ups between processes. The database stays the truth."""

    kind: str = setting(choice("none", "streams"), "none", "`none`: the database alone; `streams`: Redis Streams.")


@dataclass(frozen=True, slots=True, repr=False)
class OutboxConfig(Section):
    """Delivery of webhooks."""

    poll_min_us: int = setting(duration(10_000), 500_000, "The shortest wait between two looks.")
    poll_max_us: int = setting(duration(10_000), 1_500_000, "The longest wait between two looks.")
    batch: int = setting(whole(1, 25), 10, "Events claimed at once; those beyond the free slots wait for one.")
    concurrency: int = setting(whole(1, 1_000), 5, "Deliveries under way at the same time.")
    max_attempts: int = setting(whole(1, 100), 12, "Deliveries of one event before it is a dead letter.")


@dataclass(frozen=True, slots=True, repr=False)
class TranscodeConfig(Section):
    """Transcoding jobs: `POST /transcode`, and a worker for them in every role that runs jobs."""

    enabled: bool | None = setting(
        flag_or_auto(), None, "Whether transcoding is there. `auto`: where an ffmpeg is installed."
    )
    local_root: str = setting(
        text(),
        "",
        "The folder of `local` sources and destinations, one below `requesters/` for each requester. Empty: `local` "
        "is refused.",
    )
    work_dir: str = setting(
        name(), ".euterpe/work", "Where files lie while they are worked on; at least three times the largest source."
    )
    queue: str = setting(name(), "default", "The queue of transcoding jobs; some worker must consume it.")
    concurrency: int = setting(whole(0, 1_000), 0, "Sources that one process encodes at a time; 0: one for each core.")
    max_source_bytes: int = setting(size(1), 5 * 10**9, "The largest source.")
    max_output_bytes: int = setting(size(1), 20 * 10**9, "The largest output.")
    max_job_bytes: int = setting(size(1), 20 * 10**9, "All outputs of one job together.")
    min_free_bytes: int = setting(
        size(0),
        10**9,
        "What stays free on the disk of `transcode.work_dir`. A job starts only if three times its source fits beside "
        "what runs; else it waits, uncharged.",
    )
    max_duration_us: int = setting(duration(SECOND_US), 12 * HOUR_US, "The longest source.")
    refresh_attempts: int = setting(
        whole(1, 1_000), 20, "How often the worker asks for fresh credentials over the whole life of a job."
    )
    public_url: str = setting(
        text(),
        "",
        "How requesters reach this API, for the URL they send fresh credentials to; empty: host and port.",
    )


@dataclass(frozen=True, slots=True, repr=False)
class EgressConfig(Section):
    """Where requests that a requester asked for may go."""

    allow_private: bool | None = setting(
        flag_or_auto(),
        None,
        "Whether private addresses may be called. `auto`: no, but loopback where the database is a file and the API on "
        "loopback. `false` closes loopback too.",
    )
    allow_hosts: tuple[str, ...] = setting(names(), (), "Hosts that may be called whatever their address.")


@dataclass(frozen=True, slots=True, repr=False)
class RetentionConfig(Section):
    """How long things are kept after they ended."""

    completed_us: int = setting(duration(), 7 * DAY_US, "Jobs that completed.")
    failed_us: int = setting(duration(), 30 * DAY_US, "Jobs that failed for good.")
    dead_letter_us: int = setting(duration(), 90 * DAY_US, "Jobs that were given up.")
    cancelled_us: int = setting(duration(), 7 * DAY_US, "Jobs that were cancelled.")
    events_us: int = setting(duration(), 7 * DAY_US, "Webhook events that were delivered.")
    tombstones_us: int = setting(duration(), 30 * DAY_US, "The mark of a pruned job, which answers 410.")
    idempotency_us: int = setting(
        duration(SECOND_US),
        IDEMPOTENCY_WINDOW_US,
        "Idempotency keys, counted from the end of their job, where neither the submission nor its job type names a "
        "window. No key goes while its job lives.",
    )


def retention_of(section: RetentionConfig) -> Retention:
    """What housekeeping goes by."""
    return Retention(
        completed_us=section.completed_us,
        cancelled_us=section.cancelled_us,
        failed_us=section.failed_us,
        dead_letter_us=section.dead_letter_us,
        events_us=section.events_us,
        tombstones_us=section.tombstones_us,
    )


@dataclass(frozen=True, slots=True, repr=False)
class Config(Section):
    """The whole configuration. `Config()` is the defaults."""

    redis: RedisConfig = field(default_factory=RedisConfig)
    worker: WorkerConfig = field(default_factory=WorkerConfig)
    producer: ProducerConfig = field(default_factory=ProducerConfig)
    circuit_breaker: CircuitBreakerConfig = field(default_factory=CircuitBreakerConfig)
    observability: ObservabilityConfig = field(default_factory=ObservabilityConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    api: ApiConfig = field(default_factory=ApiConfig)
    quotas: QuotasConfig = field(default_factory=QuotasConfig)
    transport: TransportConfig = field(default_factory=TransportConfig)
    outbox: OutboxConfig = field(default_factory=OutboxConfig)
    transcode: TranscodeConfig = field(default_factory=TranscodeConfig)
    egress: EgressConfig = field(default_factory=EgressConfig)
    retention: RetentionConfig = field(default_factory=RetentionConfig)

    @property
    def queue_labels(self) -> tuple[str, ...]:
        """The queue names that metrics may carry as a label, each once."""
        lists = self.worker.queues.values() if self.uses_redis_lists else ()
        return tuple(dict.fromkeys((*lists, *self.worker.consume, *self.observability.queues)))

    @property
    def uses_redis_lists(self) -> bool:
        """Whether jobs live in Redis lists, which alone use the keys from `worker.max_retries` on."""
        return self.engine.url.startswith(("redis://", "rediss://"))
