"""Bugs at the edge: what a client, a key or a receiver may cost the others."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

CLIENTS = "tests/service/api/test_hostile_clients.py"
CONNECTIONS = "api/connections.py"

EDGE_BUGS = (
    Bug(
        "a_head_is_counted_after_the_parser",
        (Edit(CONNECTIONS, "                self._head_bytes += len(piece)\n", "                pass\n"),),
        f"{CLIENTS}::test_a_head_without_end_is_refused_with_431",
        ("== [431]", "TimeoutError"),
    ),
    Bug(
        "a_silent_connection_has_no_deadline",
        (Edit(CONNECTIONS, '        self._wait_for("head", self._limits.head_timeout_s)\n\n', "\n"),),
        f"{CLIENTS}::test_a_connection_without_a_whole_head_is_closed_in_time",
        "TimeoutError",
    ),
    Bug(
        "a_byte_starts_the_deadline_anew",
        (Edit(CONNECTIONS, "        if what == self._waits_for:\n            return\n", ""),),
        f"{CLIENTS}::test_a_byte_now_and_then_buys_no_time",
        "TimeoutError",
    ),
    Bug(
        "nobody_makes_room_at_the_limit_of_connections",
        (Edit(CONNECTIONS, "waiting = self._silent or self._idle", "waiting: dict[Connection, None] = {}"),),
        f"{CLIENTS}::test_silent_connections_give_way_to_those_who_ask",
        ("the oldest goes first", "TimeoutError"),
    ),
    Bug(
        "any_host_is_served_on_loopback",
        (Edit("hosts.py", "if own or is_loopback(bound_to):", "if own:"),),
        f"{CLIENTS}::test_a_server_on_loopback_does_not_answer_to_strange_names",
        "JSONDecodeError",
    ),
)
