"""Bugs of what a circuit is and whom it stops."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

CIRCUITS = "tests/worker/test_circuit_breaker.py"
ISOLATION = "tests/worker/test_breaker_isolation.py"
UNITS = "tests/worker_units/test_queue_breakers.py"
STORES = "tests/transcode/service/test_dead_stores.py"

CIRCUIT_BUGS = (
    Bug(
        "an_open_circuit_is_claimed_all_the_same",
        (
            Edit("CircuitBreakers.narrowed", "queues=queues, types=types) if queues else None", "limit=request.limit)"),
            Edit("CircuitBreakers._may_begin", "if not all(circuit.is_due or", "if not all(True or circuit.is_due or"),
        ),
        f"{CIRCUITS}::test_an_open_circuit_claims_nothing_and_charges_nothing_and_one_probe_decides[sqlite]",
        ("assert", "waited", "AssertionError"),
    ),
    Bug(
        "every_worker_has_a_probe_of_its_own",
        (
            Edit("Circuit.is_due", "return self.prober is None and self.breaker", "return self.breaker"),
            Edit("Circuit.begin_probe", "if self.prober is None:", "if True:"),
        ),
        f"{UNITS}::test_after_the_cooldown_one_worker_gets_one_probe_and_all_get_the_rest",
        "assert",
    ),
    Bug(
        "a_job_that_is_wrong_itself_opens_the_circuit",
        (Edit("circuits.py:COUNTED", "Category.TIMEOUT, Category.SYSTEM}", "Category.PERMANENT}"),),
        f"{CIRCUITS}::test_permanent_failures_and_a_breaker_that_is_off_keep_the_queue_claimed[sqlite]",
        "waited",
    ),
    Bug(
        "a_worker_that_ends_takes_the_probe_with_it",
        (Edit("CircuitBreakers.close", "if circuit.prober is self:", "if circuit.prober is None:"),),
        f"{UNITS}::test_a_worker_that_ends_leaves_its_probe_to_another",
        "assert",
    ),
    Bug(
        "a_circuit_of_one_type_stops_the_queue",
        (
            Edit(
                "CircuitBreakers._claimable",
                "shut, types = {(c.scope.queue, c.scope.type) for c in self._for_all()}, self._handlers.types",
                "types = self._handlers.types\n"
                "        shut = {(c.scope.queue, t) for c in self._for_all() for t in types}",
            ),
        ),
        f"{ISOLATION}::test_sixty_bad_jobs_of_one_type_cost_another_type_and_another_requester_nothing[sqlite]",
        "waited",
    ),
    Bug(
        "one_requester_opens_the_circuit_of_everybody",
        (Edit("SharedCircuits._count", "None if is_alone else requester", "None if not place else requester"),),
        f"{ISOLATION}::test_a_requester_whose_jobs_fail_is_alone_with_its_circuit[sqlite-120]",
        "waited",
    ),
    Bug(
        "the_worst_requester_speaks_for_all",
        (Edit("ResultWindow.is_over_for_all", "failed - worst[1], few)", "failed, few)"),),
        f"{UNITS}::test_one_requester_opens_no_circuit_but_its_own",
        "assert",
    ),
    Bug(
        "the_applications_circuit_stays_everybodys_when_others_come",
        (Edit("SharedCircuits.saw", "scope._replace(requester=LOCAL_REQUESTER)", "scope"),),
        f"{ISOLATION}::test_sixty_bad_jobs_of_one_type_cost_another_type_and_another_requester_nothing[sqlite]",
        "waited",
    ),
    Bug(
        "a_timeout_of_a_microsecond_counts",
        (Edit("verdict_of", "return None if is_cut_short else False", "return False"),),
        f"{ISOLATION}::test_timeouts_that_a_submission_made_short_open_no_circuit[sqlite]",
        "assert",
    ),
    Bug(
        "a_full_disk_counts_for_a_requester",
        (Edit("verdict_of", " or failure.code.startswith(OWN_TROUBLE)", ""),),
        f"{UNITS}::test_trouble_of_the_workers_own_machine_opens_nothing",
        "assert",
    ),
    Bug(
        "a_dead_store_stops_its_requesters_other_stores",
        (Edit("failure_for", "place=failed_place(error, payload.source, payload.destination),", ""),),
        f"{STORES}::test_transcodes_to_a_dead_store_cost_other_stores_and_other_requesters_nothing",
        "waited",
    ),
    Bug(
        "the_probe_is_the_failing_requesters_again",
        (
            Edit(
                "CircuitBreakers._choose_probe",
                "key=lambda claim: claim.job.requester_id == circuit.last_failed",
                "key=lambda claim: 0",
            ),
        ),
        f"{UNITS}::test_the_probe_is_another_requesters_than_the_last_that_failed",
        "assert",
    ),
    Bug(
        "a_deferred_job_pays_for_its_attempt",
        (Edit("CircuitBreakers._deferral", "CIRCUIT_OPEN, unfit=True,", "CIRCUIT_OPEN,"),),
        f"{ISOLATION}::test_a_requester_whose_jobs_fail_is_alone_with_its_circuit[sqlite-120]",
        ("assert", "waited"),
    ),
    Bug(
        "what_waits_in_the_worker_runs_into_an_open_circuit",
        (Edit("CircuitBreakers.refusal_of", "if self._circuits_of(claim.job) else None", "if False else None"),),
        f"{UNITS}::test_what_waits_in_the_worker_goes_back_when_its_circuit_opens",
        "assert",
    ),
)
