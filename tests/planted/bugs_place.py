"""Bugs in where a queue's file is, who may read it, and whose ticks a cron takes."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_FILE = "tests/queue/test_database_file.py"

PLACE_BUGS = (
    Bug(
        "a_relative_path_is_resolved_at_each_connect",
        (
            Edit("GroupCommitEngine.__init__", "str(Path(path).absolute())", "path"),
            Edit("engines.py:connect", "    url = _absolute(url)\n", ""),
        ),
        f"{_FILE}::test_a_queue_stays_with_its_file_when_the_program_changes_its_folder[sqlite]",
        "elsewhere",
    ),
    Bug(
        "everybody_may_read_a_new_database",
        (Edit("GroupCommitEngine._make_file", "0o600", "0o644"),),
        f"{_FILE}::test_a_new_database_is_readable_by_its_owner_alone[sqlite]",
        "jobs.db",
    ),
    Bug(
        "two_crons_take_each_others_ticks",
        (Edit("add_cron", "other.identity == cron.identity for", "False for"),),
        "tests/queue/test_schedule.py"
        "::test_two_crons_with_one_expression_on_one_type_are_refused_unless_their_names_differ",
        "DID NOT RAISE",
    ),
)
