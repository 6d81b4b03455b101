"""Bugs of who may be sent to, what a receiver is told, and what is seen of it."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

DISPATCHER = "tests/outbox/test_dispatcher.py"
TURNS = "tests/outbox/test_fair_turns.py"

DELIVERY_BUGS = (
    Bug(
        "one_requester_opens_the_breaker_of_a_receiver_for_all",
        (Edit("OutboxEvent.receiver", "return self.requester_id, self.origin", 'return "", self.origin'),),
        f"{TURNS}::test_a_breaker_that_one_requester_opens_at_a_receiver_does_not_stop_another_there[sqlite]",
        "waited",
    ),
    Bug(
        "a_slot_is_kept_back_from_a_lone_requester",
        (Edit("Endpoints._most", "return self._slots if is_alone else", "return"),),
        f"{TURNS}::test_five_deliveries_of_one_requester_are_under_way_at_once[sqlite]",
        ("TimeoutError", "waited"),
    ),
    Bug(
        "one_requester_takes_every_slot_while_another_waits",
        (
            Edit(
                "Endpoints._most",
                "return self._slots if is_alone else max(1, self._slots - 1)",
                "return self._slots",
            ),
        ),
        f"{TURNS}::test_a_requester_alone_gets_all_slots_and_all_but_one_while_another_has_events",
        "assert",
    ),
    Bug(
        "a_receiver_is_told_the_traceback",
        (Edit("_error_told", 'if k != "stack"}', "}"),),
        f"{DISPATCHER}::test_a_traceback_goes_only_to_receivers_that_asked_for_it[sqlite-all-False]",
        "assert",
    ),
    Bug(
        "an_event_that_this_process_may_not_send_is_given_up",
        (Edit("DeliveryPolicy._of_refusal", "if refusal.reason not in BY_RULES:", "if True:"),),
        f"{DISPATCHER}::test_an_event_that_one_process_may_not_send_is_left_to_one_that_may[sqlite]",
        ("TimeoutError", "waited"),
    ),
    Bug(
        "an_event_that_nobody_may_send_is_tried_for_ever",
        (Edit("DeliveryPolicy._of_refusal", "min(FORBIDDEN_TRIES, self._max_attempts)", "10**9"),),
        f"{DISPATCHER}::test_an_address_that_no_process_may_call_ends_with_the_reason_and_nothing_connects[sqlite]",
        ("TimeoutError", "waited"),
    ),
    Bug(
        "events_that_wait_for_another_try_are_not_counted",
        (Edit("depth", 'counts.get("retrying", 0))', 'counts.get("running", 0))'),),
        "tests/conformance/test_outbox_delivery.py"
        "::test_the_depth_of_the_outbox_tells_events_that_wait_for_another_try[sqlite]",
        "assert",
    ),
)
