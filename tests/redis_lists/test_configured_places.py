"""Where a queue in Redis lists is, and what its keys are called, by the URL and the configuration together."""

from __future__ import annotations

import pytest

from euterpe.backends.engines import engine_url_of, redis_lists_of, with_list_settings
from euterpe.config import load_config
from euterpe.queue.queue import Queue
from euterpe.service.components.producing import rate_limit_key
from euterpe.service.roles import queue_labels_of, use_configured_redis
from euterpe.stores.redis_lists.settings import ListSettings, settings_from

SECTION = {"REDIS_ADDR": "db:7000", "REDIS_USERNAME": "bob", "REDIS_PASSWORD": "p/w", "REDIS_DB": "3"}
DEFAULT = "redis://127.0.0.1:6379/0"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("redis://", "redis://bob:p%2Fw@db:7000/3"),
        ("redis:///5", "redis://bob:p%2Fw@db:7000/5"),
        ("rediss://", "rediss://bob:p%2Fw@db:7000/3"),
        ("rediss://?ssl_ca_certs=ca.pem", "rediss://bob:p%2Fw@db:7000/3?ssl_ca_certs=ca.pem"),
        ("redis://?prefix=shop", "redis://bob:p%2Fw@db:7000/3?prefix=shop"),
        ("redis://other:1/0", "redis://other:1/0"),
    ],
)
def test_a_url_without_a_host_is_the_section_redis_and_keeps_the_rest(said: str, meant: str) -> None:
    assert engine_url_of(load_config(None, SECTION | {"ENGINE_URL": said})) == meant


def test_the_queue_of_an_app_has_the_configured_redis_where_it_names_none() -> None:
    queue = Queue("redis://?prefix=shop")
    use_configured_redis(load_config(None, SECTION), queue)
    lists = redis_lists_of(queue._core.backend_url)
    assert lists is not None
    assert (lists.redis_url, lists.prefix) == ("redis://bob:p%2Fw@db:7000/3", "shop")


def test_what_the_url_says_wins_and_the_configuration_says_the_rest() -> None:
    environ = {
        "WORKER_MAX_RETRIES": "7",
        "WORKER_COMPLETED_LIST": "done",
        "WORKER_BACKOFF_BASE": "20ms",
        "WORKER_QUEUES": "{high: fast, low: slow}",
    }
    config = load_config(None, environ)
    _, settings = settings_from(with_list_settings(config, f"{DEFAULT}?prefix=shop&completed_list=out"))
    expected = ListSettings.with_prefix("shop")
    assert (settings.completed_list, settings.dead_letter_list) == ("out", expected.dead_letter_list)
    assert (settings.max_retries, settings.backoff_base_us) == (7, 20_000)
    assert settings.lists == {"high": "fast", "low": "slow"}
    _, settings = settings_from(with_list_settings(config, f"{DEFAULT}?list.a=only&priorities=a"))
    assert (settings.lists, settings.priorities) == ({"a": "only"}, ("a",))


def test_metrics_and_the_rate_have_the_names_of_the_prefix() -> None:
    config = load_config(None, {"OBSERVABILITY_QUEUES": "media"})
    url = f"{DEFAULT}?prefix=shop"
    labels = queue_labels_of(config, url, ("default",))
    assert list(labels) == ["shop:high_priority", "shop:low_priority", "default", "media"]
    assert rate_limit_key(config, redis_lists_of(url)) == "shop:rate_limit:producer"
    assert rate_limit_key(config, redis_lists_of(DEFAULT)) == "jobqueue:rate_limit:producer"
    shared = load_config(None, {"PRODUCER_RATE_LIMIT_KEY": "all"})
    assert rate_limit_key(shared, redis_lists_of(url)) == "all"
