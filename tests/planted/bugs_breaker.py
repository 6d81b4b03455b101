"""Bugs of the circuit breaker of queues, and of what operators see of a failing system."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

CIRCUITS = "tests/worker/test_circuit_breaker.py"
ASKING = "tests/worker_units/test_queue_breakers.py"

BREAKER_BUGS = (
    Bug(
        "files_in_redis_lists_have_no_breaker",
        (Edit("worker/claiming/breaker.py", "get(queue, self._default)", "get(queue)"),),
        f"{CIRCUITS}::test_files_in_the_lists_of_the_configuration_are_guarded_by_the_breaker_of_the_default_queue",
        "waited",
    ),
    Bug(
        "a_list_that_is_paused_is_claimed_all_the_same",
        (
            Edit(
                "stores/redis_lists/lua/turn.lua",
                "not is_stopped and not paused['queue' .. SEPARATOR .. list]",
                "not is_stopped",
            ),
        ),
        "tests/redis_lists/test_lists_as_queues.py::test_a_list_is_paused_alone_or_with_the_default_queue",
        "assert",
    ),
    Bug(
        "an_open_circuit_is_claimed_all_the_same",
        (Edit("worker/claiming/breaker.py", "if self._circuits[queue].is_closed)", "if queue)"),),
        f"{CIRCUITS}::test_an_open_circuit_claims_nothing_and_charges_nothing_and_one_probe_decides[sqlite]",
        ("assert", "waited"),
    ),
    Bug(
        "every_worker_has_a_probe_of_its_own",
        (Edit("worker/claiming/breaker.py", "if self.is_closed or self.prober is not None:", "if self.is_closed:"),),
        f"{ASKING}::test_after_the_cooldown_one_worker_gets_one_probe_and_all_get_the_other_queues",
        "assert",
    ),
    Bug(
        "a_job_that_is_wrong_itself_opens_the_circuit",
        (Edit("worker/claiming/breaker.py", "Category.TIMEOUT, Category.SYSTEM}", "Category.PERMANENT}"),),
        f"{CIRCUITS}::test_permanent_failures_and_a_breaker_that_is_off_keep_the_queue_claimed[sqlite]",
        "waited",
    ),
    Bug(
        "a_worker_that_ends_takes_the_probe_with_it",
        (Edit("worker/claiming/breaker.py", "if circuit.prober is self:", "if circuit.prober is None:"),),
        f"{ASKING}::test_a_worker_that_ends_leaves_its_probe_to_another",
        "assert",
    ),
    Bug(
        "the_lines_of_a_handler_do_not_say_whose_they_are",
        (Edit("worker/attempt.py", "running_attempt.set(self.context)", "running_attempt.set(None)"),),
        "tests/worker/test_telling_of_failures.py"
        "::test_every_line_of_a_handler_names_its_job_and_plain_logging_shows_the_traceback",
        "assert",
    ),
    Bug(
        "the_shown_configuration_has_its_secrets_in_it",
        (Edit("config/effective.py", 'return redact_url(text) if "://" in text else HIDDEN', "return text"),),
        "tests/config/test_sources.py::test_what_is_in_effect_is_shown_with_its_source_and_without_secrets",
        "canary",
    ),
)
