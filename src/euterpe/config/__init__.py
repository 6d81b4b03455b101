"""The configuration: a YAML file, overridden by the environment, checked whole before anything starts."""

from euterpe.config.declaration import redact_url
from euterpe.config.loading import environment_name, load_config
from euterpe.config.problems import ConfigError, ConfigProblem
from euterpe.config.settings import (
    ApiConfig,
    BackoffConfig,
    CircuitBreakerConfig,
    Config,
    EgressConfig,
    EngineConfig,
    ObservabilityConfig,
    OutboxConfig,
    ProducerConfig,
    RedisConfig,
    RetentionConfig,
    TracingConfig,
    TranscodeConfig,
    TransportConfig,
    WorkerConfig,
    retention_of,
)

__all__ = [
    "ApiConfig",
    "BackoffConfig",
    "CircuitBreakerConfig",
    "Config",
    "ConfigError",
    "ConfigProblem",
    "EgressConfig",
    "EngineConfig",
    "ObservabilityConfig",
    "OutboxConfig",
    "ProducerConfig",
    "RedisConfig",
    "RetentionConfig",
    "TracingConfig",
    "TranscodeConfig",
    "TransportConfig",
    "WorkerConfig",
    "environment_name",
    "load_config",
    "redact_url",
    "retention_of",
]
