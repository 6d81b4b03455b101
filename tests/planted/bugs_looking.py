"""Bugs in what people are told about their jobs."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_WHY = "tests/conformance/test_why.py"
_QUERIES = "tests/conformance/test_queries.py"

LOOKING_BUGS = (
    Bug(
        "the_place_in_a_queue_forgets_priorities",
        (Edit("postgres/jobs_ahead.sql", "(r.priority < :priority OR r.seq < :seq)", "r.seq < :seq"),),
        f"{_WHY}::test_a_job_says_how_many_are_ahead_of_it_in_its_queue[postgres]",
        "Reason.POSITION",
    ),
    Bug(
        "jobs_of_a_paused_type_count_as_ahead",
        (Edit("_in_queue", "if looked_at > AHEAD_LIMIT else int(ahead)", ""),),
        f"{_WHY}::test_jobs_that_a_claim_would_pass_over_are_not_ahead[sqlite]",
        "Reason.NEXT",
    ),
    Bug(
        "everything_ahead_is_counted_however_much_it_is",
        (
            Edit(
                "postgres/jobs_ahead.sql",
                "ORDER BY r.rank, r.seq LIMIT :limit",
                "ORDER BY r.rank, r.seq LIMIT 1000 * :limit",
            ),
        ),
        "tests/plans/test_long_queues.py::test_the_jobs_ahead_on_postgres_are_looked_at_up_to_the_bound[lone]",
        "Actual Rows",
    ),
    Bug(
        "a_key_counts_as_full_when_it_has_a_free_slot",
        (Edit("_scheduled", "found.blocker_count >= limit", "found.blocker_count >= 1"),),
        f"{_WHY}::test_a_full_concurrency_key_names_who_holds_it[sqlite]",
        "Reason.NEXT",
    ),
    Bug(
        "a_dependency_that_has_ended_is_still_named",
        (Edit("unfinished_dependencies.sql", " AND d.completed_at IS NULL", ""),),
        f"{_WHY}::test_a_pending_job_names_what_it_waits_for[sqlite]",
        "check",
    ),
    Bug(
        "anybody_may_ask_why_a_job_waits",
        (Edit("reads/why.py:why", "if not rows or requester_id not in (None, rows[0][1]):", "if not rows:"),),
        f"{_WHY}::test_a_requester_gets_no_explanation_of_anybody_elses_job[sqlite]",
        "DID NOT RAISE",
    ),
    Bug(
        "a_page_of_a_query_looks_at_everything",
        (Edit("scan_range_of", "SCAN_LIMIT if query.scan_limit is None else query.scan_limit", "SCAN_LIMIT"),),
        f"{_QUERIES}::test_a_page_looks_at_so_many_jobs_and_its_cursor_goes_on[sqlite-scheduled]",
        "assert 1 ==",
    ),
    Bug(
        "a_page_without_a_query_looks_at_everything",
        (Edit("JobRoutes.search", "            scan_limit=SCAN_LIMIT,\n", ""),),
        "tests/server/test_queries.py::test_a_page_looks_at_so_many_jobs_whichever_way_it_is_asked_for[sqlite-type=rare]",
        "the first page looked at everything",
    ),
    Bug(
        "the_job_at_the_edge_of_a_page_is_looked_at_by_nobody",
        (
            Edit(
                "scan_range_of",
                "ScanRange(before, edge + 1, more=True)",
                "ScanRange(before, edge + 2, more=True)",
            ),
            Edit("search.py:_page", "str(stretch.down_to) if", "str(stretch.down_to - 1) if"),
        ),
        f"{_QUERIES}::test_pages_of_a_query_join_up_without_gaps_or_repeats[sqlite-None]",
        "assert",
    ),
    Bug(
        "the_text_of_an_error_can_pass_for_its_code",
        (
            Edit(
                "sqlite/search_filters.sql",
                """instr(w.error, '{"code":' || :error) = 1""",
                "instr(w.error, trim(:error, char(34))) > 0",
            ),
        ),
        f"{_QUERIES}::test_a_job_is_found_by_the_code_or_the_category_of_its_error[sqlite]",
        "assert",
    ),
    Bug(
        "an_id_finds_anybodys_job",
        (
            Edit(
                "criteria",
                '"requester_id": query.requester_id,',
                '"requester_id": None if query.text else query.requester_id,',
            ),
        ),
        f"{_QUERIES}::test_an_id_finds_nobody_elses_job[sqlite]",
        "assert",
    ),
    Bug(
        "a_wrong_word_is_taken_for_text",
        (
            Edit(
                "job_query.py:_read",
                "if not word.key:",
                "if word.key not in _READERS and not word.key.startswith('tag.'):",
            ),
        ),
        "tests/model/test_job_query.py::test_a_wrong_word_is_named_with_its_place",
        "DID NOT RAISE",
    ),
    Bug(
        "a_query_text_forgets_to_escape_quotes",
        (Edit("_quoted", """.replace('"', '\\\\"')""", ""),),
        "tests/model/test_job_query.py::test_the_text_of_a_search_asks_for_the_same",
        "InvalidInput",
    ),
)
