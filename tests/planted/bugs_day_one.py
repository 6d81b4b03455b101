"""Bugs in what a platform meets on its first day with transcoding: replays, places, results."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

_TESTS = "tests/transcode/service"

DAY_ONE_BUGS = (
    Bug(
        "a_replay_is_refused_for_credentials_that_have_expired",
        (
            Edit(
                "TranscodeRoutes.submit",
                "            if submitted is None:\n                raise\n",
                "            raise\n",
            ),
        ),
        f"{_TESTS}/test_http.py::test_a_repeated_request_is_answered_though_its_credentials_have_expired",
        "AssertionError",
    ),
    Bug(
        "requesters_share_the_local_folder",
        (Edit("Places._local", "return self._root.of(requester_id)", "return self._root"),),
        f"{_TESTS}/test_local_places.py::test_a_requester_reads_and_replaces_its_own_files_alone",
        "AssertionError",
    ),
    Bug(
        "local_files_cannot_be_switched_off",
        (Edit("read_request", "    if not takes_local:\n", "    if False:\n"),),
        f"{_TESTS}/test_local_places.py::test_local_places_are_refused_unless_a_folder_is_configured",
        "AssertionError",
    ),
    Bug(
        "a_result_may_be_too_large_for_its_job",
        (Edit("bounded", "> LISTED_BYTES and", "> 10**9 and"),),
        f"{_TESTS}/test_results.py::test_fifty_outputs_of_many_files_fit_into_a_result",
        "AssertionError",
    ),
    Bug(
        "a_transcode_that_succeeded_stays_at_90_percent",
        (Edit("_Attempt.run", "            await self._ctx.progress(100.0)\n", ""),),
        f"{_TESTS}/test_results.py::test_a_transcode_that_succeeded_is_at_100_percent",
        "AssertionError",
    ),
    Bug(
        "covers_and_logs_beside_music_become_transcodes",
        (Edit("tree_of", "takes_media = settings.presets and", "takes_media = False and"),),
        "tests/cli/test_producer.py::test_a_folder_of_music_becomes_a_folder_of_encodes",
        "AssertionError",
    ),
    Bug(
        "an_update_url_that_nobody_reaches_is_not_warned_of",
        (Edit("is_update_url_unreachable", "(is_everywhere or is_apart)", "is_everywhere"),),
        f"{_TESTS}/test_update_url.py::test_an_address_that_nobody_else_reaches_is_warned_of[127.0.0.1--{'postgresql://db/jobs'}-True]",
        "AssertionError",
    ),
    Bug(
        "outputs_are_uploaded_one_after_the_other",
        (Edit("gathered", "gate = asyncio.Semaphore(AT_ONCE)", "gate = asyncio.Semaphore(1)"),),
        f"{_TESTS}/test_side_by_side.py::test_outputs_are_uploaded_side_by_side",
        "TimeoutError",
    ),
)
