"""Where values come from: prefixed and bare variables, the platform's own, the file; and what a role does not need."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path

import pytest
from msgspec import structs

from euterpe.config import Config, ConfigError, load_config
from euterpe.config.effective import effective
from euterpe.config.loading import all_settings, load
from euterpe.config.reference import example
from euterpe.queue.queue import Queue
from euterpe.queue.worker import settings_of
from euterpe.service.roles import ALL, API, OUTBOX, PRODUCER, WORKER, options_of, tuning_of
from euterpe.webhook.settings import config_of
from euterpe.worker.settings import WorkerSettings
from tests.config.samples import EVERY_KEY

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "euterpe.yaml"
KUBERNETES = {"API_PORT": "tcp://10.0.0.7:80", "REDIS_DB": "media"}


def test_the_prefixed_name_wins_over_the_bare_one_and_both_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("worker: {count: 2, grace: 5s}\n")
    loaded = load(str(path), {"EUTERPE_WORKER_COUNT": "7", "WORKER_COUNT": "lots", "WORKER_GRACE": "9s"})
    assert (loaded.config.worker.count, loaded.config.worker.grace_us) == (7, 9_000_000)
    assert (loaded.sources["worker.count"], loaded.sources["worker.grace"]) == (
        "$EUTERPE_WORKER_COUNT",
        "$WORKER_GRACE",
    )


def test_a_bad_prefixed_variable_is_named_by_its_whole_name() -> None:
    with pytest.raises(ConfigError, match=r"worker\.count \(\$EUTERPE_WORKER_COUNT\): 'lots'"):
        load_config(None, {"EUTERPE_WORKER_COUNT": "lots", "WORKER_COUNT": "3"})


def test_deliveries_of_a_process_without_a_file_read_prefixed_names_too() -> None:
    config = config_of({"EUTERPE_OUTBOX_BATCH": "3", "EGRESS_ALLOW_PRIVATE": "1", "API_PORT": "nonsense"})
    assert (config.outbox.batch, config.egress.allow_private) == (3, True)


@pytest.mark.parametrize(
    ("environ", "url", "source"),
    [
        ({"DATABASE_URL": "postgres://u:p@h/db"}, "postgres://u:p@h/db", "$DATABASE_URL"),
        ({"DATABASE_URL": "postgresql+asyncpg://u:p@h/db"}, "postgresql://u:p@h/db", "$DATABASE_URL"),
        ({"DATABASE_URL": "mysql://h/db"}, Config().engine.url, ""),
        ({"DATABASE_URL": "postgresql://h/a", "ENGINE_URL": "postgresql://h/b"}, "postgresql://h/b", "$ENGINE_URL"),
    ],
)
def test_the_platforms_database_is_the_last_resort(environ: dict[str, str], url: str, source: str) -> None:
    loaded = load(None, environ)
    assert (loaded.config.engine.url, loaded.sources["engine.url"]) == (url, source)


def test_the_file_wins_over_the_platforms_database(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("engine: {url: 'sqlite:///mine.db'}\n")
    assert load_config(str(path), {"DATABASE_URL": "postgresql://h/db"}).engine.url == "sqlite:///mine.db"


def test_a_url_of_sqlalchemy_gets_a_hint() -> None:
    with pytest.raises(ConfigError, match=r"write it without \+asyncpg"):
        load_config(None, {"ENGINE_URL": "postgresql+asyncpg://u:canary@h/db"})


def test_a_variable_that_only_another_role_needs_stops_nobody() -> None:
    """Kubernetes puts API_PORT=tcp://... into every pod of a namespace that has a Service named api."""
    loaded = load(None, {**KUBERNETES, "QUOTAS_REQUESTS": "many", "REDIS_DB": "0"}, WORKER.needs)
    assert {problem.source for problem in loaded.ignored} == {"$API_PORT", "$QUOTAS_REQUESTS"}
    assert loaded.config == Config()
    for role in (ALL, API):
        with pytest.raises(ConfigError, match=r"\$API_PORT"):
            load(None, {"API_PORT": "tcp://10.0.0.7:80"}, role.needs)
    assert load(None, {"PRODUCER_SCAN_INTERVAL": "x", "WORKER_COUNT": "x"}, OUTBOX.needs).config == Config()
    assert load(None, {"API_MAX_BODY": "1KB"}, PRODUCER.needs).config.api.max_body_bytes == 1000, "no rule judges it"
    with pytest.raises(ConfigError, match="engine"):
        load(None, {"ENGINE_URL": "nowhere"}, PRODUCER.needs)


def test_a_role_and_a_worker_in_the_hand_have_the_same_defaults() -> None:
    tuning = tuning_of(Config())
    of_a_role = settings_of(tuning.concurrency, options_of(Config(), tuning))
    in_the_hand = settings_of(signature(Queue.worker).parameters["concurrency"].default, {})
    by_default = WorkerSettings(worker_id="w")
    assert [structs.replace(settings, worker_id="w") for settings in (of_a_role, in_the_hand)] == [by_default] * 2


def test_the_share_of_a_requester_reaches_the_worker_of_a_role() -> None:
    config = load(None, {"WORKER_REQUESTER_SHARE": "0.25"}).config
    tuning = tuning_of(config)
    assert settings_of(tuning.concurrency, options_of(config, tuning)).requester_share == 0.25


def test_a_bad_value_in_the_file_stops_every_role(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("api: {port: x}\n")
    with pytest.raises(ConfigError, match=r"api\.port"):
        load(str(path), {}, WORKER.needs)


def test_what_is_in_effect_is_shown_with_its_source_and_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("worker:\n  count: 3\nredis:\n  password: canary\n")
    shown = {entry.key: entry for entry in effective(load(str(path), {"ENGINE_URL": "postgresql://u:canary@h/db"}))}
    assert set(shown) == set(EVERY_KEY)
    assert shown["worker.count"][1:] == ("3", f"{path}:2")
    assert shown["redis.password"][1:] == ("***", f"{path}:4")
    assert shown["engine.url"][1:] == ("postgresql://***@h/db", "$ENGINE_URL")
    assert shown["worker.heartbeat_ttl"][1:] == ("1m", "default")
    assert "canary" not in str(shown)


def test_the_example_file_is_the_one_that_the_code_makes_and_means_the_defaults(tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    assert text == example(), "run: euterpe config example > examples/euterpe.yaml"
    assert load_config(str(EXAMPLE), {}) == Config()
    everything = tmp_path / "all.yaml"
    everything.write_text(re.sub(r"^( +)# ", r"\1", text, flags=re.MULTILINE))
    loaded = load(str(everything), {})
    assert loaded.config == Config()
    assert [key for key, _ in all_settings() if not loaded.sources[key]] == [], "every key stands in the file"
