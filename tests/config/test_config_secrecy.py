"""What a configuration must never say aloud, and files that are not what they seem."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from euterpe.config import ConfigError, load_config, redact_url
from euterpe.config.loading import all_settings
from euterpe.config.yaml_file import FILE_LIMIT_BYTES
from tests.config.samples import EVERY_KEY

CANARY = "c4n4ry-s3cret"


def error_text(path: Path, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(str(path), environ or {})
    return str(caught.value)


def test_no_secret_shows_up_in_the_repr() -> None:
    environ = {
        "REDIS_PASSWORD": CANARY,
        "ENGINE_URL": f"postgresql://ada:{CANARY}@db.example/jobs?password={CANARY}",
        "OBSERVABILITY_TRACING_ENDPOINT": f"https://{CANARY}@otel.example/v1/traces?key={CANARY}",
    }
    config = load_config(None, environ)
    assert CANARY not in f"{config!r} {config} {config.redis!r} {config.engine!s} {vars(type(config))}"
    assert "db.example" in repr(config), "what is not secret still helps"
    assert config.redis.password == CANARY


@pytest.mark.parametrize("key", [key for key, setting in all_settings() if setting.secret])
def test_a_bad_secret_is_named_but_not_shown(key: str, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    section = key.split(".")
    path.write_text("".join("  " * depth + f"{name}:\n" for depth, name in enumerate(section))[:-1] + f" [{CANARY}]\n")
    text = error_text(path)
    assert key in text
    assert CANARY not in text


def test_every_key_whose_name_says_secret_is_one() -> None:
    telling = ("password", "secret", "token", "credential")
    assert all(s.secret for key, s in all_settings() if any(word in key for word in telling))
    assert {key for key, s in all_settings() if s.secret} == {
        "redis.password",
        "engine.url",
        "observability.tracing.endpoint",
    }


def test_the_value_of_an_unknown_key_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"redis:\n  pasword: {CANARY}\n")
    text = error_text(path)
    assert "did you mean redis.password?" in text
    assert CANARY not in text


@pytest.mark.parametrize(
    "broken",
    [
        "redis:\n  password: *{}\n",
        "redis:\n  password: '{}\n",
        "redis:\n  password: {}: x\n",
        "redis:\n password: !{} x\n",
        'redis:\n  password: "{}\\q"\n',
        "redis:\n\tpassword: {}\n",
        "redis: {}\n---\nredis: {}\n",
    ],
)
def test_a_syntax_error_says_where_but_not_what(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(broken.replace("{}", CANARY))
    text = error_text(path)
    assert "is not valid YAML" in text
    assert CANARY not in text
    assert "c.yaml:" in text


@pytest.mark.parametrize(
    "hostile",
    [
        "worker: !!python/object/apply:os.system ['true']",
        "worker: !!python/name:os.system ''",
        "!!python/object/new:type ['x', [], {}]",
        "worker: {count: 2001-99-99}",
        "worker: {count: !!int x}",
        "[" * 50_000,
        "worker: {count: &a [x]}\nb: [" + "[*a, *a]," * 10 + "]",
    ],
)
def test_yaml_that_asks_for_more_than_values_is_refused(tmp_path: Path, hostile: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(hostile)
    error_text(path)


def test_a_folder_a_binary_and_a_huge_file_are_refused_by_name(tmp_path: Path) -> None:
    assert "cannot be read" in error_text(tmp_path)
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"\xff\xfe\x00worker")
    assert "b.yaml: is not UTF-8 text" in error_text(binary)
    huge = tmp_path / "h.yaml"
    huge.write_bytes(b"#" * (FILE_LIMIT_BYTES + 1))
    assert "larger than" in error_text(huge)


def test_a_very_long_value_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"worker: {{count: {'x' * 10_000}}}")
    assert len(error_text(path)) < 400


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:pw@h:5432/db", "postgresql://***@h:5432/db"),
        ("postgresql://h/db", "postgresql://h/db"),
        ("sqlite:///jobs.db", "sqlite:///jobs.db"),
        ("libsql://h?authToken=t&x=y", "libsql://h?authToken=***&x=***"),
        ("redis://:p/w@h", "redis://***@h"),
        ("redis://:p?w@h", "redis://***@h"),
        ("https://tok@h/p#frag", "https://***@h/p"),
    ],
)
def test_a_url_is_shown_without_login_and_query_values(url: str, shown: str) -> None:
    assert redact_url(url) == shown


@settings(deadline=None)
@given(password=st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S"]), min_size=8))
def test_no_password_survives_in_a_shown_url(password: str) -> None:
    marked = f"Zq{password}Zq"
    assert marked not in redact_url(f"postgresql://ada:{marked}@host/db")
    assert "Zq" not in redact_url(f"postgresql://ada:{marked}@host/db").replace("@host/db", "")


def test_the_canary_values_of_the_samples_are_secret_keys() -> None:
    assert {key for key, s in EVERY_KEY.items() if "canary" in str(s.loaded)} <= {
        "redis.password",
        "engine.url",
    }


def test_a_value_that_aliases_make_endless_is_refused_in_no_time(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    doubled = "".join(f"  - &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    path.write_text(f"worker:\n  count:\n  - &a0 [x]\n{doubled}")
    assert "worker.count" in error_text(path)
