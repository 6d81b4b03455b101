"""Bugs of the circuit breaker of queues, and of what operators see of a failing system."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

CIRCUITS = "tests/worker/test_circuit_breaker.py"

BREAKER_BUGS = (
    Bug(
        "files_in_redis_lists_have_no_breaker",
        (Edit("CircuitBreakers._queue_of", "else DEFAULT_QUEUE", 'else "nobody\'s"'),),
        f"{CIRCUITS}::test_files_in_the_lists_of_the_configuration_are_guarded_by_the_breaker_of_the_default_queue",
        "waited",
    ),
    Bug(
        "a_list_that_is_paused_is_claimed_all_the_same",
        (
            Edit(
                "turn.lua",
                "not is_stopped and not paused['queue' .. SEPARATOR .. list]",
                "not is_stopped",
            ),
        ),
        "tests/redis_lists/test_lists_as_queues.py::test_a_list_is_paused_alone_or_with_the_default_queue",
        "assert",
    ),
    Bug(
        "the_lines_of_a_handler_do_not_say_whose_they_are",
        (Edit("AttemptRun.run", "running_attempt.set(self.context)", "running_attempt.set(None)"),),
        "tests/worker/test_telling_of_failures.py"
        "::test_every_line_of_a_handler_names_its_job_and_plain_logging_shows_the_traceback",
        "assert",
    ),
    Bug(
        "the_shown_configuration_has_its_secrets_in_it",
        (Edit("effective.py:_shown", 'return redact_url(text) if "://" in text else HIDDEN', "return text"),),
        "tests/config/test_sources.py::test_what_is_in_effect_is_shown_with_its_source_and_without_secrets",
        "canary",
    ),
)
