"""Bugs in what is told of workers that are alive."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_REGISTRY = "tests/conformance/test_registry.py"
_WHY = "tests/conformance/test_why.py"
_REGISTRATION = "tests/worker_units/test_registration.py"

REGISTRY_BUGS = (
    Bug(
        "a_dead_worker_is_listed_until_it_is_swept_away",
        (Edit("live.sql", "WHERE w.expires_at > {{now}}", "WHERE w.expires_at > 0"),),
        f"{_REGISTRY}::test_one_that_is_silent_is_not_alive_until_it_speaks_again[sqlite]",
        "'silent'",
    ),
    Bug(
        "a_queue_counts_as_barred_when_one_breaker_of_many_is_open",
        (Edit("service_of", "bool(until) and min(until) > now", "bool(until) and max(until) > now"),),
        f"{_WHY}::test_an_open_breaker_is_named_where_no_worker_may_claim[sqlite]",
        "Reason.NEXT",
    ),
    Bug(
        "a_refused_registration_is_never_tried_again",
        (
            Edit(
                "WorkerRegistration.run",
                "except Exception as error:  # noqa: BLE001  # no job depends on it",
                "except ValueError as error:",
            ),
        ),
        f"{_REGISTRATION}::test_a_refusal_of_any_kind_is_tried_again_soon_and_ends_nothing",
        "whatever may go wrong",
    ),
    Bug(
        "a_worker_that_ends_stays_listed",
        (Edit("WorkerRegistration.leave", "await self._registry.unregister(self._worker_id)", "pass"),),
        f"{_REGISTRATION}::test_it_leaves_once_and_whatever_that_meets",
        "['w']",
    ),
)
