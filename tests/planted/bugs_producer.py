"""Bugs of the producer: files enqueued twice, too early, or never."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

PRODUCER = "tests/producer/test_producer.py"
TREE = "tests/producer/test_tree.py"
RATES = "tests/producer/test_rate_limits.py"

PRODUCER_BUGS = (
    Bug(
        "a_file_is_remembered_by_its_name_alone",
        (Edit("Producer._key", "{file.path}\\0{file.size}\\0{file.mtime_ns}", "{file.path}"),),
        f"{PRODUCER}::test_a_changed_file_is_enqueued_again_and_a_renamed_one_too",
        "assert",
    ),
    Bug(
        "a_restarted_producer_enqueues_everything_again",
        (Edit("Producer._submission", 'idempotency_key=f"file:{key.hex()}"', "idempotency_key=None"),),
        f"{PRODUCER}::test_a_file_is_enqueued_once_over_scans_restarts_and_producers[sqlite]",
        "assert",
    ),
    Bug(
        "a_file_is_forgotten_after_a_day",
        (Edit("Producer._submission", "idempotency_window_us=LONGEST_US", "idempotency_window_us=None"),),
        f"{PRODUCER}::test_a_file_stays_known_when_its_job_was_pruned_long_ago",
        "(1, 0)",
    ),
    Bug(
        "a_half_written_file_is_taken",
        (
            Edit(
                "ChangingFiles.take_still",
                "if before is None or (before.size, before.mtime_ns) != (file.size, file.mtime_ns):",
                "if before is None:",
            ),
        ),
        f"{PRODUCER}::test_a_file_that_grows_is_left_alone_until_it_is_still",
        "half.wav",
    ),
    Bug(
        "what_changed_while_the_rate_was_waited_for_is_enqueued_as_it_was",
        (Edit("Producer._try_batch", "            if not same:\n", "            if same is None:\n"),),
        f"{PRODUCER}::test_what_changes_between_look_and_submit_is_looked_at_again",
        "a.wav",
    ),
    Bug(
        "an_outage_costs_a_batch_of_files",
        (Edit("Producer._submit_batch", "                error = failure\n", "                return\n"),),
        f"{PRODUCER}::test_a_database_that_is_away_for_a_moment_costs_no_file",
        "assert 0 == 5",
    ),
    Bug(
        "a_hint_leads_through_a_link_out_of_the_tree",
        (Edit("Tree.walk", "[] if self._is_behind_link(folder) else [folder]", "[folder]"),),
        f"{TREE}::test_a_look_that_begins_behind_a_link_finds_nothing",
        "album/out",
    ),
    Bug(
        "links_are_followed_out_of_the_tree",
        (
            Edit("Tree._list", "elif entry.is_symlink():", "elif entry.is_symlink() and not entry.is_file():"),
            Edit("_plain_file", "status = entry.stat(follow_symlinks=False)", "status = entry.stat()"),
        ),
        f"{TREE}::test_links_are_not_followed_and_those_that_lead_out_are_counted",
        "out.wav",
    ),
    Bug(
        "a_folder_that_moves_in_is_found_by_the_next_scan_only",
        (Edit("_hints_of", "((path.parent, False), (path, True))", "((path.parent, False),)"),),
        f"{PRODUCER}::test_a_running_producer_follows_the_tree_as_it_is_told_of_changes",
        "TimeoutError",
    ),
    Bug(
        "encodes_are_encoded_again",
        (Edit("Tree.walk", 'f"{here}/".startswith(self._leave_out)', 'f"{here}/" == self._leave_out'),),
        f"{TREE}::test_our_own_outputs_are_never_looked_at",
        "encodes/album/a.mp3",
    ),
    Bug(
        "each_producer_has_a_rate_of_its_own",
        (
            Edit(
                "take_rate.sql",
                "CASE WHEN r.next_at > {{now}} THEN r.next_at ELSE {{now}} END",
                "{{now}}",
            ),
        ),
        f"{RATES}::test_two_processes_share_what_is_reserved[sqlite]",
        "assert",
    ),
    Bug(
        "known_files_use_up_the_rate",
        (Edit("Producer._submit_batch", "await self._rate.give_back(unused)", "await self._rate.give_back(0)"),),
        f"{RATES}::test_known_files_cost_nothing_of_the_rate",
        "assert",
    ),
)
