"""The configuration: the document's keys one by one, the environment over them, all bad keys named at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from euterpe.config import Config, ConfigError, environment_name, load_config
from euterpe.config.loading import all_settings
from euterpe.model.errors import EuterpeError
from tests.config.samples import EVERY_KEY, OF_THE_DOCUMENT, attribute, nested

BAD = [(key, value) for key, sample in EVERY_KEY.items() for value in sample.bad]


def write(folder: Path, content: str) -> str:
    path = folder / "euterpe.yaml"
    path.write_text(content)
    return str(path)


def from_yaml(folder: Path, content: str, environ: dict[str, str] | None = None) -> Config:
    return load_config(write(folder, content), environ or {})


def written(document: object) -> str:
    """As YAML, in which JSON is contained but for keys that are no text."""
    return json.dumps(document).replace('{"3":', "{3:")


def error_of(folder: Path, content: str, environ: dict[str, str] | None = None) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        from_yaml(folder, content, environ)
    return caught.value


def keys_of(error: ConfigError) -> list[str]:
    return [problem.key for problem in error.problems]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for the whole file, as Hypothesis wants; every example writes its own content."""
    return tmp_path_factory.mktemp("config")


def test_no_file_means_defaults() -> None:
    assert load_config(None, {}) == Config()


def test_a_missing_file_means_defaults(tmp_path: Path) -> None:
    assert load_config(str(tmp_path / "none.yaml"), {}) == Config()


@pytest.mark.parametrize("empty", ["", "# nothing\n", "worker:\n", "worker:\n  count:\nredis: {}\n", "---\n"])
def test_what_is_left_empty_means_defaults(tmp_path: Path, empty: str) -> None:
    assert from_yaml(tmp_path, empty) == Config()


def test_the_defaults_pass_their_own_rules_and_match_the_contract() -> None:
    config = load_config(None, {})
    assert config.worker.heartbeat_ttl_us == 60_000_000
    assert (config.outbox.poll_min_us, config.outbox.poll_max_us) == (500_000, 1_500_000)
    assert (config.outbox.batch, config.outbox.concurrency) == (10, 5)
    assert (config.api.host, config.api.port) == ("127.0.0.1", 8080)
    assert config.engine.max_payload_bytes == 1_000_000
    assert config.egress.allow_private is None
    assert config.worker.consume == ("default",)


def test_the_samples_name_every_key_and_no_other() -> None:
    assert {key for key, _ in all_settings()} == set(EVERY_KEY)


def test_every_key_of_the_document_is_read_from_the_file(tmp_path: Path) -> None:
    config = from_yaml(tmp_path, json.dumps(nested({key: s.in_file for key, s in EVERY_KEY.items()})))
    assert {key: attribute(config, s.attribute) for key, s in OF_THE_DOCUMENT.items()} == {
        key: s.loaded for key, s in OF_THE_DOCUMENT.items()
    }
    assert all(attribute(config, s.attribute) == s.loaded for s in EVERY_KEY.values())


def test_every_sample_differs_from_its_default() -> None:
    same = [key for key, s in EVERY_KEY.items() if attribute(Config(), s.attribute) == s.loaded]
    assert same == []


@settings(max_examples=15, deadline=None)
@given(st.sets(st.sampled_from(sorted(EVERY_KEY))))
def test_it_does_not_matter_which_keys_come_from_the_environment(folder: Path, from_environment: set[str]) -> None:
    in_file = {key: s.in_file for key, s in EVERY_KEY.items() if key not in from_environment}
    environ = {environment_name(key): EVERY_KEY[key].in_environment for key in from_environment}
    config = from_yaml(folder, json.dumps(nested(in_file)), environ)
    assert all(attribute(config, s.attribute) == s.loaded for s in EVERY_KEY.values())


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    content = "worker: {count: 2, backoff: {base: 2s}}\nredis: {addr: 'a:1'}"
    environ = {"WORKER_COUNT": "7", "WORKER_BACKOFF_BASE": "3s", "REDIS_ADDR": "b:2"}
    config = from_yaml(tmp_path, content, environ)
    assert (config.worker.count, config.worker.backoff.base_us, config.redis.addr) == (7, 3_000_000, "b:2")


def test_a_bad_value_in_the_file_does_not_matter_once_the_environment_overrides_it(tmp_path: Path) -> None:
    assert from_yaml(tmp_path, "worker: {count: 0}", {"WORKER_COUNT": "7"}).worker.count == 7


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    assert from_yaml(tmp_path, "worker: {count: 2}", {"WORKER_COUNT": ""}).worker.count == 2


def test_variables_of_other_programs_are_none_of_our_business() -> None:
    assert load_config(None, {"WORKER_FOO": "x", "PATH": "/bin", "REDIS_URL": "y"}) == Config()


def test_no_two_keys_share_a_variable() -> None:
    names = [environment_name(key) for key, _ in all_settings()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("variable", "flag"), [("1", True), ("true", True), ("yes", True), ("0", False), ("off", False)]
)
def test_flags_read_as_people_write_them_in_the_environment(variable: str, flag: bool) -> None:
    assert load_config(None, {"EGRESS_ALLOW_PRIVATE": variable}).egress.allow_private is flag


@pytest.mark.parametrize("written", ["[a, b]", '["a", "b"]', "a,b", " a , b "])
def test_a_list_in_the_environment_is_separated_by_commas_or_written_as_yaml(written: str) -> None:
    assert load_config(None, {"WORKER_CONSUME": written}).worker.consume == ("a", "b")


@pytest.mark.parametrize(("key", "value"), BAD, ids=[f"{key}={value!r}" for key, value in BAD])
def test_a_bad_value_is_refused_and_its_key_is_named(tmp_path: Path, key: str, value: object) -> None:
    error = error_of(tmp_path, written(nested({key: value})))
    assert keys_of(error) == [key]
    assert key in str(error)
    assert "expected" in str(error)
    assert "euterpe.yaml:" in str(error), "it says in which line"


@settings(max_examples=15, deadline=None)
@given(st.sets(st.sampled_from(sorted(EVERY_KEY)), min_size=1), st.randoms(use_true_random=False))
def test_one_error_names_every_bad_key(folder: Path, bad_keys: set[str], rng: object) -> None:
    document: dict[str, object] = {key: EVERY_KEY[key].in_file for key in EVERY_KEY}
    document.update({key: rng.choice(EVERY_KEY[key].bad) for key in bad_keys})  # type: ignore[attr-defined]
    error = error_of(folder, written(nested(document)))
    assert set(keys_of(error)) == bad_keys


def test_a_bad_variable_is_named_as_the_variable_it_is() -> None:
    with pytest.raises(ConfigError, match=r"worker\.count \(\$WORKER_COUNT\): 'lots'; expected a whole number"):
        load_config(None, {"WORKER_COUNT": "lots"})


def test_a_kubernetes_service_link_that_collides_is_named_and_not_guessed_at() -> None:
    with pytest.raises(ConfigError, match=r"\$API_PORT"):
        load_config(None, {"API_PORT": "tcp://10.0.0.7:80"})


def test_the_error_belongs_to_the_tree_of_the_house() -> None:
    assert issubclass(ConfigError, EuterpeError)


@pytest.mark.parametrize(
    ("content", "key", "hint"),
    [
        ("worker: {cuont: 3}", "worker.cuont", "did you mean worker.count?"),
        ("worker: {heartbeat-ttl: 30s}", "worker.heartbeat-ttl", "did you mean worker.heartbeat_ttl?"),
        ("wroker: {count: 3}", "wroker", "did you mean worker?"),
        ("scan_dir: ./x", "scan_dir", "did you mean producer.scan_dir?"),
        ("worker: {backoff: {maximum: 3s}}", "worker.backoff.maximum", "did you mean worker.backoff.max?"),
        ("zzz: 1", "zzz", "has no such key"),
        ("1: 1", "1", "has no such key"),
    ],
)
def test_an_unknown_key_is_an_error_with_a_suggestion(tmp_path: Path, content: str, key: str, hint: str) -> None:
    error = error_of(tmp_path, content)
    assert keys_of(error) == [key]
    assert hint in str(error)


@pytest.mark.parametrize("wrong", ["worker: 3", "worker: [count]", "worker: text", "worker: true", "- a\n- b", "text"])
def test_a_section_must_be_a_map(tmp_path: Path, wrong: str) -> None:
    error = error_of(tmp_path, wrong)
    assert keys_of(error) == ["worker" if wrong.startswith("worker") else "the file"]


def test_a_key_that_stands_twice_is_named_with_its_line(tmp_path: Path) -> None:
    error = error_of(tmp_path, "worker: {count: 2}\nredis: {db: 1}\nworker: {count: 3}\n")
    assert "worker (" in str(error)
    assert "euterpe.yaml:3): is written twice" in str(error)


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ("worker: {heartbeat_ttl: 10s, brpoplpush_timeout: 6s}", "worker.brpoplpush_timeout"),
        ("worker: {priorities: [high, mid]}", "worker.priorities"),
        ("worker: {queues: {high: a, low: b}, priorities: [low, x]}", "worker.priorities"),
        ("worker: {backoff: {base: 2h}}", "worker.backoff.base"),
        ("producer: {default_priority: mid}", "producer.default_priority"),
        ("worker: {queues: {low: a}, priorities: [low]}\nproducer: {high_priority_exts: [.wav]}",
         "producer.high_priority_exts"),
        ("outbox: {poll_min: 3s, poll_max: 2s}", "outbox.poll_min"),
        ("api: {max_body: 1MB}\nengine: {max_payload: 2MB}", "api.max_body"),
        ("api: {port: 9477}", "observability.metrics_port"),
        ("engine: {url: 'redis://h:6379'}\ntransport: {kind: streams}", "transport.kind"),
        ("producer: {scan_dir: in, presets: [flac]}", "producer.presets"),
        ("producer: {scan_dir: in, presets: [flac]}\ntranscode: {local_root: in/below}", "producer.presets"),
        ("producer: {scan_dir: encodes/in, presets: [flac]}\ntranscode: {local_root: .}", "producer.presets"),
        ("producer: {presets: [flac]}\nengine: {url: 'http://localhost'}", "producer.presets"),
        (f"observability: {{queues: [{','.join(f'q{n}' for n in range(49))}]}}", "observability.queues"),
    ],
)  # fmt: skip
def test_keys_that_contradict_each_other_are_named(tmp_path: Path, content: str, key: str) -> None:
    assert keys_of(error_of(tmp_path, content)) == [key]


@pytest.mark.parametrize(
    "content",
    [
        "worker: {heartbeat_ttl: 5s, brpoplpush_timeout: 2500ms}",
        "worker: {heartbeat_ttl: 12s, brpoplpush_timeout: 6s}",
        "worker: {priorities: [low]}",
        "outbox: {poll_min: 2s, poll_max: 2s}",
        "observability: {metrics_port: 0}\napi: {port: 0}",
        "engine: {max_payload: 16MB}\napi: {max_body: 16MB}",
        "engine: {url: 'postgresql:///jobs?host=/run/postgresql'}",
        "engine: {url: 'sqlite:///:memory:'}",
        "producer: {rate_limit_per_sec: 0}",
        "producer: {scan_dir: media, presets: [flac]}\ntranscode: {local_root: media}",
        "producer: {scan_dir: media/encodes2, presets: [flac]}\ntranscode: {local_root: media}",
        "producer: {scan_dir: media, presets: [flac]}\ntranscode: {local_root: media}\nengine: {url: 'redis://localhost'}",
    ],
)
def test_values_at_the_edge_of_a_rule_are_fine(tmp_path: Path, content: str) -> None:
    from_yaml(tmp_path, content)


def test_a_rule_is_not_judged_on_a_key_that_could_not_be_read(tmp_path: Path) -> None:
    error = error_of(tmp_path, "worker: {heartbeat_ttl: soon, brpoplpush_timeout: 40s, count: 0}")
    assert keys_of(error) == ["worker.count", "worker.heartbeat_ttl"]


def test_the_queues_that_metrics_may_show_are_listed_once_each() -> None:
    environ = {"WORKER_CONSUME": "media,default", "OBSERVABILITY_QUEUES": "media,more"}
    assert load_config(None, environ).queue_labels == ("media", "default", "more")
    lists = load_config(None, {**environ, "ENGINE_URL": "redis://127.0.0.1:6379"})
    assert lists.queue_labels == ("jobqueue:high_priority", "jobqueue:low_priority", "media", "default", "more")
