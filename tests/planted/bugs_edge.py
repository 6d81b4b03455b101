"""Bugs at the edge: what a client, a key or a receiver may cost the others."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

CLIENTS = "tests/server/test_hostile_clients.py"
EVENTS = "tests/server/test_events.py"
AUTHORIZATION = "tests/server/test_authorization.py"
TURNS = "tests/outbox/test_fair_turns.py"
PROTOCOL = "tests/server/test_worker_protocol.py"
LEFT = (
    "tests/server/test_leaving_clients.py"
    "::test_nothing_is_claimed_for_a_worker_that_left_while_its_turn_was_at_something_else[sqlite]"
)

EDGE_BUGS = (
    Bug(
        "a_head_is_counted_after_the_parser",
        (
            Edit(
                "ClientConnection.data_received", "                self._head_bytes += size\n", "                pass\n"
            ),
        ),
        f"{CLIENTS}::test_a_head_without_end_is_refused_with_431",
        ("== [431]", "TimeoutError"),
    ),
    Bug(
        "a_silent_connection_has_no_deadline",
        (
            Edit(
                "ClientConnection.connection_made",
                '        self._wait_for("head", self._limits.head_timeout_s)\n',
                "",
            ),
        ),
        f"{CLIENTS}::test_a_connection_without_a_whole_head_is_closed_in_time",
        "TimeoutError",
    ),
    Bug(
        "a_byte_starts_the_deadline_anew",
        (Edit("ClientConnection._wait_for", "        if what == self._waits_for:\n            return\n", ""),),
        f"{CLIENTS}::test_a_byte_now_and_then_buys_no_time",
        "TimeoutError",
    ),
    Bug(
        "nobody_makes_room_at_the_limit_of_connections",
        (
            Edit(
                "OpenConnections.enter", "waiting = self._silent or self._idle", "waiting: dict[Connection, None] = {}"
            ),
        ),
        f"{CLIENTS}::test_silent_connections_give_way_to_those_who_ask",
        ("the oldest goes first", "TimeoutError"),
    ),
    Bug(
        "who_was_let_in_once_lets_in_all_others",
        (Edit("HostCheck._is_meant", "if hosts[0] != self._last:", "if self._last is None:"),),
        f"{CLIENTS}::test_configured_names_are_answered_too",
        "assert 200 == 421",
    ),
    Bug(
        "a_job_is_claimed_for_who_left_before_anybody_looked",
        (Edit("ClientPresence.watch", "        if self._is_gone:\n", "        if False:\n"),),
        LEFT,
        "<State.RUNNING: 'running'> != <State.SCHEDULED",
    ),
    Bug(
        "nobody_hears_that_a_client_leaves",
        (Edit("ClientConnection.connection_lost", "        self._presence.ends()\n", ""),),
        f"{PROTOCOL}::test_a_worker_that_left_while_waiting_gets_no_job",
        "TimeoutError",
    ),
    Bug(
        "no_clock_is_kept_for_a_body_that_is_not_there",
        (Edit("Request.body", "if WHOLE_BODY in self._scope:", "if True:"),),
        f"{CLIENTS}::test_a_body_that_does_not_come_is_answered_in_time",
        ("== [408]", "TimeoutError"),
    ),
    Bug(
        "a_trailer_is_taken_for_a_header",
        (
            Edit(
                "ClientConnection.on_headers_complete", "        self.headers = []  # A trailer", "        # A trailer"
            ),
        ),
        f"{CLIENTS}::test_a_trailer_is_not_taken_for_a_header",
        "idempotency-replayed",
    ),
    Bug(
        "any_host_is_served_on_loopback",
        (Edit("AllowedHosts.__init__", "if own or is_loopback(bound_to):", "if own:"),),
        f"{CLIENTS}::test_a_server_on_loopback_does_not_answer_to_strange_names",
        "JSONDecodeError",
    ),
    Bug(
        "a_stream_outlives_its_key",
        (Edit("Feed._event_chunks", "if not await self._still_allowed(request):", "if False:"),),
        f"{EVENTS}::test_a_stream_ends_when_its_key_is_revoked",
        "TimeoutError",
    ),
    Bug(
        "one_requester_may_have_all_streams",
        (
            Edit(
                "Feed._enter",
                "for other in self._listeners) >= self._share",
                "for other in ()) >= self._share",
            ),
        ),
        f"{EVENTS}::test_one_requester_has_its_share_of_the_streams_and_no_more",
        "ReadTimeout",
    ),
    Bug(
        "a_page_reads_all_that_is_large",
        (Edit("search.py:_page", "        max_bytes=query.max_bytes,", "        max_bytes=2**62,"),),
        "tests/server/test_large_pages.py::test_results_and_checkpoints_count_too",
        "== (2, True)",
    ),
    Bug(
        "every_group_polls_as_if_it_were_alone",
        (Edit("_Group._serve", "idle_s * self._coordinator.pace * ", "idle_s * "),),
        "tests/server/test_many_groups.py::test_many_groups_poll_no_more_than_a_few_do",
        "as if it were alone",
    ),
    Bug(
        "a_submit_key_may_read",
        (Edit("Identity.may", "return scope in self.scopes or (", "return True or ("),),
        f"{AUTHORIZATION}::test_a_key_opens_its_own_routes_on_its_own_things_alone",
        "assert 202 == 403",
    ),
    Bug(
        "an_admin_key_works",
        (Edit("Identity.may", "scope is not Scope.WORKER and ", ""),),
        f"{AUTHORIZATION}::test_a_key_opens_its_own_routes_on_its_own_things_alone[admin]",
        "assert 200 == 403",
    ),
    Bug(
        "another_requesters_event_is_shown",
        (Edit("OutboxRoutes.get", "event.requester_id != requester_id", "event.requester_id == ''"),),
        f"{AUTHORIZATION}::test_a_key_opens_its_own_routes_on_its_own_things_alone[read]",
        "assert 200 == 404",
    ),
    Bug(
        "anybody_may_say_another_requester",
        (Edit("requester_asked_for", "if Scope.ADMIN not in request.identity.scopes:", "if False:"),),
        f"{AUTHORIZATION}::test_only_an_admin_may_say_another_requester",
        "== {403}",
    ),
    Bug(
        "an_expired_key_still_opens",
        (Edit("Authenticator._look_up", " or stored.is_over:", ":"),),
        f"{AUTHORIZATION}::test_without_a_good_key_only_the_open_routes_answer",
        "== 401",
    ),
    Bug(
        "hanging_receivers_take_every_slot_for_the_unproven",
        (Edit("Endpoints._has_its_share", "if requester_id in self._suspects else self._with_a_newcomer", ""),),
        f"{TURNS}::test_receivers_of_one_requester_that_hang_do_not_delay_the_first_webhook_of_another",
        "TimeoutError",
    ),
    Bug(
        "who_has_most_events_goes_first",
        (Edit("FairClaims._others_first", "        if not last or ", "        if True or "),),
        f"{TURNS}::test_who_has_many_events_does_not_go_before_all_others",
        "['few']",
    ),
    Bug(
        "the_signature_leaves_the_nonce_out",
        (Edit("signature", 'f"{timestamp}.{nonce}.".encode()', 'f"{timestamp}.".encode()'),),
        "tests/webhook/test_signing.py::test_the_signature_covers_timestamp_nonce_and_body_with_the_secret_as_printed",
        "AssertionError",
    ),
    Bug(
        "a_nonce_may_be_used_again",
        (Edit("MemoryNonces.seen", "            if nonce in self._known:\n                return True\n", ""),),
        "tests/webhook/test_verifying.py::test_a_replay_is_refused_and_a_redelivery_with_its_own_nonce_is_not",
        "DID NOT RAISE",
    ),
    Bug(
        "every_delivery_has_the_same_nonce",
        (Edit("Dispatcher._deliver", "nonce=new_nonce()", 'nonce="n" * 22'),),
        "tests/outbox/test_dispatcher.py"
        "::test_a_refused_event_is_sent_again_with_the_same_id_and_body_and_a_fresh_nonce",
        "== 4",
    ),
    Bug(
        "origins_are_never_forgotten",
        (Edit("Endpoints._endpoint", "            if len(self._known) > KNOWN_LIMIT:", "            if False:"),),
        f"{TURNS}::test_origins_that_fail_are_forgotten_in_time",
        "<= 100",
    ),
    Bug(
        "a_private_answer_is_kept",
        (Edit("_answer_to_keep", "if not reply.from_public:", "if False:"),),
        f"{TURNS}::test_what_a_private_receiver_answers_is_not_kept_for_the_submitter_to_read",
        "secret of the inside",
    ),
    Bug(
        "loopback_stays_open",
        (Edit("egress_policy", "embedded and config.egress.allow_private is not False", "embedded"),),
        f"{TURNS}::test_loopback_is_closed_where_private_addresses_are_said_to_be",
        "(True, False) == (False, False)",
    ),
    Bug(
        "what_was_said_before_the_question_is_the_answer",
        (Edit("Connection.ask", "        await self._read_unasked_bytes()\n", ""),),
        "tests/webhook/test_unasked_bytes.py::test_an_answer_that_came_before_the_question_is_not_its_answer",
        "DID NOT RAISE",
    ),
    Bug(
        "a_terminal_gets_json_raw",
        (Edit("shown_json", "    if not sys.stdout.isatty():\n        return document\n", "    return document\n"),),
        "tests/cli/test_appearance.py::test_json_at_a_terminal_draws_nothing_on_it_and_is_the_same_json",
        "isprintable",
    ),
    Bug(
        "a_batch_is_not_held_to_the_quota",
        (Edit("JobRoutes._submit", "[draft.submission for draft in unit.drafts]", "[unit.drafts[0].submission]"),),
        "tests/server/test_quotas.py::test_a_batch_over_the_quota_is_refused_whole",
        "KeyError: 'code'",
    ),
)
