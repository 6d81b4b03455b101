"""Metrics: the documents' names, labels and buckets, bounded labels, exact sums, and a cheap hot path."""

from __future__ import annotations

import random
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from euterpe.config import rules
from euterpe.model.events.outbox import OutboxBacklog
from euterpe.model.failures.circuit_breaker import BreakerCode
from euterpe.model.failures.failure import Category
from euterpe.observe import families
from euterpe.observe import metrics as metrics_module
from euterpe.observe.metrics import BUCKETS_S, MAX_QUEUE_LABELS, OTHER, REASONS, Metrics
from tests.observe.promtool import complaints_about

# name: (type, labels), written down from the two documents and the interface page.
CONTRACT = {
    "jobs_produced_total": ("counter", {"queue"}),
    "jobs_consumed_total": ("counter", {"queue"}),
    "jobs_completed_total": ("counter", {"queue"}),
    "jobs_failed_total": ("counter", {"queue", "reason"}),
    "jobs_retried_total": ("counter", {"queue"}),
    "jobs_dead_letter_total": ("counter", {"queue"}),
    "job_processing_duration_seconds": ("histogram", {"queue"}),
    "queue_length": ("gauge", {"queue"}),
    "circuit_breaker_state": ("gauge", {"queue"}),
    "reaper_jobs_moved_total": ("counter", set()),
    "queue_oldest_age_seconds": ("gauge", {"queue"}),
    "claim_latency_seconds": ("histogram", {"queue"}),
    "credential_refresh_total": ("counter", {"outcome"}),
    "outbox_pending": ("gauge", set()),
    "outbox_retrying": ("gauge", set()),
    "outbox_delivery_attempts_total": ("counter", {"outcome"}),
    "outbox_dead_letter_total": ("counter", set()),
    "jobs_reclaimed_total": ("counter", set()),
    "stale_writes_rejected_total": ("counter", set()),
    # Our own, beside the documents'.
    "euterpe_jobs_adopted_total": ("counter", set()),
    "euterpe_housekeeping_overdue_seconds": ("gauge", set()),
    "euterpe_housekeeping_removed_total": ("counter", {"kind"}),
    "euterpe_attempts_total": ("counter", {"type", "outcome"}),
    "euterpe_attempt_duration_seconds": ("histogram", {"type"}),
}


def samples(metrics: Metrics) -> dict[str, float]:
    """`name{label="value"}` -> number, as a scraper reads it."""
    _, body = metrics.render()
    found = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            labels = ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def lived_in() -> Metrics:
    """Metrics in which everything happened at least once."""
    metrics = Metrics(["media"])
    metrics.produced("media", 5)
    metrics.claimed("media", [0.001, 0.2, 4.0])
    metrics.settled("media", "completed", 1, [0.3])
    metrics.settled("media", "retrying", 1, [7.0], "temporary")
    metrics.settled("media", "dead_letter", 1, [0.01], "system")
    metrics.attempts_ended("encode", "completed", [0.3])
    metrics.retried("media")
    metrics.dead_lettered("media")
    metrics.reclaimed()
    metrics.adopted()
    metrics.reaper_moved()
    metrics.stale_write()
    metrics.credential_refresh("refreshed")
    metrics.outbox_attempts("delivered")
    metrics.outbox_dead_lettered()
    metrics.sample_outbox(OutboxBacklog(pending=3, retrying=2))
    metrics.housekept("jobs", 500)
    metrics.sample_housekeeping(7.5)
    metrics.sample_queues({"media": 4}, {"media": 12.5})
    metrics.breaker_state("media", BreakerCode.OPEN)
    return metrics


def test_the_names_types_and_labels_are_those_of_the_contract() -> None:
    _, body = lived_in().render()
    shown = {}
    for family in text_string_to_metric_families(body.decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        shown[name] = (family.type, labels)
    assert shown == CONTRACT


def test_events_that_wait_for_another_try_are_counted_beside_all_that_wait() -> None:
    seen = samples(lived_in())
    assert (seen["outbox_pending"], seen["outbox_retrying"]) == (3, 2)


def test_the_buckets_are_seconds_from_a_millisecond_to_the_longest_run() -> None:
    assert BUCKETS_S == (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 1800)
    shown = [key for key in samples(lived_in()) if key.startswith("job_processing_duration_seconds_bucket")]
    assert len(shown) == 2 * (len(BUCKETS_S) + 1)


def test_a_scrape_says_which_format_it_is() -> None:
    content_type, body = Metrics().render()
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert body.endswith(b"\n")


def test_what_never_happened_is_zero_for_counters_and_absent_for_gauges() -> None:
    seen = samples(Metrics(["media"]))
    assert seen['jobs_completed_total{queue="media"}'] == 0
    assert seen["stale_writes_rejected_total"] == 0
    gauges = ("queue_length", "outbox_pending", "outbox_retrying", "circuit_breaker_state")
    assert not any(key.startswith(gauges) for key in seen)


def test_an_empty_queue_of_the_configuration_has_the_length_0() -> None:
    metrics = Metrics(["media", "mail"])
    metrics.sample_queues({"media": 2}, {"media": 1.5})
    seen = samples(metrics)
    assert (seen['queue_length{queue="media"}'], seen['queue_length{queue="mail"}']) == (2, 0)
    assert seen['queue_oldest_age_seconds{queue="mail"}'] == 0


def test_a_job_that_completes_is_counted_along_its_way() -> None:
    metrics = Metrics(["media"])
    metrics.produced("media")
    metrics.claimed("media", [0.02])
    metrics.settled("media", "completed", 1, [1.5])
    seen = samples(metrics)
    for name in ("jobs_produced_total", "jobs_consumed_total", "jobs_completed_total"):
        assert seen[f'{name}{{queue="media"}}'] == 1
    assert seen['job_processing_duration_seconds_sum{queue="media"}'] == 1.5
    assert seen['job_processing_duration_seconds_bucket{le="1.0",queue="media"}'] == 0
    assert seen['job_processing_duration_seconds_bucket{le="2.5",queue="media"}'] == 1
    assert seen['claim_latency_seconds_count{queue="media"}'] == 1


@pytest.mark.parametrize(
    ("state", "failed", "retried", "dead"),
    [
        ("failed", 1, 0, 0),
        ("retrying", 1, 1, 0),
        ("dead_letter", 1, 0, 1),
        ("cancelled", 1, 0, 0),
        ("scheduled", 0, 0, 0),
    ],
)
def test_an_attempt_that_does_not_complete_is_counted_by_where_its_job_goes(
    state: str, failed: int, retried: int, dead: int
) -> None:
    metrics = Metrics(["media"])
    metrics.settled("media", state, 1, [1.0], "timeout")
    seen = samples(metrics)
    reason = "cancelled" if state == "cancelled" else "timeout"
    assert seen[f'jobs_failed_total{{queue="media",reason="{reason}"}}'] == failed
    assert seen['jobs_retried_total{queue="media"}'] == retried
    assert seen['jobs_dead_letter_total{queue="media"}'] == dead
    assert seen['jobs_completed_total{queue="media"}'] == 0
    assert seen['job_processing_duration_seconds_count{queue="media"}'] == 1


def test_a_value_on_the_edge_belongs_to_the_bucket_that_names_it() -> None:
    metrics = Metrics(["media"])
    metrics.settled("media", "completed", 1, [0.5])
    seen = samples(metrics)
    assert seen['job_processing_duration_seconds_bucket{le="0.25",queue="media"}'] == 0
    assert seen['job_processing_duration_seconds_bucket{le="0.5",queue="media"}'] == 1


def test_an_unlisted_queue_is_other_and_an_unknown_reason_too() -> None:
    metrics = Metrics(["media"])
    metrics.produced("someone's-own", 2)
    metrics.settled("media", "failed", 3, (), "because")
    metrics.outbox_attempts("exploded")
    metrics.credential_refresh("maybe")
    metrics.attempts_ended("encode", "exploded", [0.1])
    seen = samples(metrics)
    assert seen['euterpe_attempts_total{outcome="other",type="encode"}'] == 1
    assert seen['jobs_produced_total{queue="other"}'] == 2
    assert seen['jobs_failed_total{queue="media",reason="other"}'] == 3
    assert seen['outbox_delivery_attempts_total{outcome="other"}'] == 1
    assert seen['credential_refresh_total{outcome="other"}'] == 1


@pytest.mark.parametrize("queues", [0, 1, 48, 49, 50, 10_000])
def test_no_label_ever_has_more_than_fifty_values(queues: int) -> None:
    names = [f"queue-{number}-{random.getrandbits(64):x}" for number in range(queues)]
    metrics = Metrics(names)
    for name in names:
        metrics.produced(name)
        metrics.produced(f"{name}, which nobody listed")
        metrics.attempts_ended(name, "completed", [0.1, 0.2])
    _, body = metrics.render()
    values: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            for label, value in sample.labels.items():
                values.setdefault(label, set()).add(value)
    assert all(len(seen) <= 50 for seen in values.values())
    assert len(values["queue"]) == min(queues, 49) + 1
    produced = sum(value for key, value in samples(metrics).items() if key.startswith("jobs_produced_total"))
    ended = sum(value for key, value in samples(metrics).items() if key.startswith("euterpe_attempts_total"))
    assert produced == ended == 2 * queues, "what has no label of its own is still counted"
    assert len(values.get("type", ())) == min(queues, 50)


def test_the_configuration_and_the_metrics_agree_on_how_many_queues_may_be_told_apart() -> None:
    assert rules.MAX_QUEUE_LABELS == MAX_QUEUE_LABELS == 49


def test_the_reasons_are_the_five_categories_and_other() -> None:
    assert (*(str(category) for category in Category), OTHER) == REASONS


def test_a_sample_replaces_the_one_before_and_other_adds_up() -> None:
    metrics = Metrics(["media", "mail"])
    metrics.sample_queues({"media": 9, "x": 1, "y": 2}, {"media": 50.0, "x": 5.0, "y": 7.0})
    metrics.sample_queues({"mail": 4, "x": 1, "y": 2}, {"mail": 3.0, "x": 5.0, "y": 7.0})
    seen = samples(metrics)
    assert seen['queue_length{queue="media"}'] == 0
    assert seen['queue_oldest_age_seconds{queue="media"}'] == 0
    assert seen['queue_length{queue="mail"}'] == 4
    assert seen['queue_length{queue="other"}'] == 3
    assert seen['queue_oldest_age_seconds{queue="other"}'] == 7


@pytest.mark.parametrize("code", list(BreakerCode))
def test_the_breakers_state_is_a_number(code: BreakerCode) -> None:
    metrics = Metrics(["media"])
    metrics.breaker_state("media", code)
    assert samples(metrics)['circuit_breaker_state{queue="media"}'] == int(code)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.floats(0, 4000), max_size=20), max_size=10))
def test_histograms_add_up_whatever_the_batches(batches: list[list[float]]) -> None:
    metrics = Metrics(["media"])
    for batch in batches:
        metrics.settled("media", "completed", len(batch), batch)
    seen = samples(metrics)
    every = [value for batch in batches for value in batch]
    assert seen['job_processing_duration_seconds_count{queue="media"}'] == len(every)
    assert seen['job_processing_duration_seconds_sum{queue="media"}'] == pytest.approx(sum(every))
    for bound in BUCKETS_S:
        name = f'job_processing_duration_seconds_bucket{{le="{bound}",queue="media"}}'
        assert seen[name] == sum(value <= bound for value in every)


def test_counting_from_many_threads_while_somebody_scrapes_loses_nothing() -> None:
    metrics = Metrics(["media"])
    begin = threading.Barrier(5)

    def count() -> None:
        begin.wait()
        for _ in range(2_000):
            metrics.settled("media", "completed", 2, [0.01, 0.02])

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    begin.wait()
    for _ in range(20):
        metrics.render()
    for thread in threads:
        thread.join()
    seen = samples(metrics)
    assert seen['jobs_completed_total{queue="media"}'] == 16_000
    assert seen['job_processing_duration_seconds_count{queue="media"}'] == 16_000


def test_a_queue_named_with_quotes_and_line_breaks_stays_one_label() -> None:
    metrics = Metrics(['a"b\n\\c'])
    metrics.produced('a"b\n\\c')
    families = list(text_string_to_metric_families(metrics.render()[1].decode()))
    produced = next(family for family in families if family.name == "jobs_produced")
    assert {sample.labels["queue"] for sample in produced.samples} == {'a"b\n\\c', "other"}


def test_two_instances_share_nothing_and_the_global_registry_stays_clean() -> None:
    first, second = Metrics(["media"]), Metrics(["media"])
    first.produced("media")
    assert samples(second)['jobs_produced_total{queue="media"}'] == 0
    assert not any(family.name.startswith("jobs") for family in REGISTRY.collect())


def _naming_faults(body: str) -> Iterator[str]:
    """The rules that `promtool check metrics` holds names to, for machines without it."""
    for family in text_string_to_metric_families(body):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
            yield f"{name}: not in snake case"
        if not family.documentation:
            yield f"{name}: no help text"
        if family.type != "counter" and name.endswith("_total"):
            yield f"{name}: only counters end in _total"
        if name.endswith(("_count", "_sum", "_bucket", "_info")):
            yield f"{name}: a reserved suffix"
        if re.search(r"_(ms|milliseconds|minutes|hours|kb|mb)(_|$)", name):
            yield f"{name}: not in a base unit"
        if family.type in name.split("_"):
            yield f"{name}: has its type in its name"


def test_every_name_follows_the_naming_rules() -> None:
    assert list(_naming_faults(lived_in().render()[1].decode())) == []


def test_promtool_finds_nothing_to_complain_about() -> None:
    assert complaints_about(lived_in().render()[1].decode()) == ""


def test_recording_a_batch_costs_a_lookup_in_c_a_bucket_and_no_call_a_job() -> None:
    """That is less than a microsecond a job on any machine of these years, and how fast this one is does not matter."""

    def calls(jobs: int) -> Counter[str]:
        metrics, counted = Metrics(["media"]), Counter[str]()
        durations_s = [0.001 * (number % 700) for number in range(jobs)]
        sys.setprofile(lambda _frame, event, _called: counted.update([event]))
        metrics.claimed("media", durations_s)
        metrics.settled("media", "completed", jobs, durations_s)
        sys.setprofile(None)
        return counted

    few, many = calls(10), calls(510)
    assert many["call"] == few["call"]
    assert many["c_call"] <= few["c_call"] + 2 * 2 * len(BUCKETS_S)


def test_nothing_of_prometheus_clients_locked_counters_is_used() -> None:
    assert not {"Counter", "Gauge", "Histogram"} & (set(vars(metrics_module)) | set(vars(families)))
