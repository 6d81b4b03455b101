"""Bugs in what is told of a worker whose event loop is blocked, and of one that died."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

BLOCKED = "tests/cli/test_blocked_worker.py"
TOLD = f"{BLOCKED}::test_health_answers_and_says_what_blocks_and_so_do_log_registry_and_doctor[sqlite]"

BLOCKED_LOOP_BUGS = (
    Bug(
        "liveness_waits_for_the_loop_of_the_handlers",
        (
            Edit(
                "Health._answer",
                "                block = self._block()\n",
                "                asked = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop)\n"
                "                await asyncio.wrap_future(asked)\n"
                "                block = self._block()\n",
            ),
        ),
        TOLD,
        "Timeout",
    ),
    Bug(
        "readiness_does_not_say_what_blocks",
        (
            Edit(
                "Health._readiness",
                "        if (block := self._block()) is not None:\n",
                "        if (block := None):\n",
            ),
        ),
        TOLD,
        "blocking.py:12",
    ),
    Bug(
        "a_blocked_loop_is_logged_again_and_again",
        (Edit("LoopWatch._watch", " is not None and not told:\n", " is not None:\n"),),
        TOLD,
        "assert",
    ),
    Bug(
        "only_the_blocked_loop_itself_tells_the_registry",
        (
            Edit(
                "run_worker",
                "            watch.on_block = partial(_register_block, core.backend_url, registration)\n",
                "            pass\n",
            ),
        ),
        TOLD,
        "the registry tells what blocks",
    ),
    Bug(
        "a_worker_that_was_killed_stays_on_the_list",
        (
            Edit(
                "give_back_unbegun",
                "                await backend.store.workers.unregister(config.worker_id)\n",
                "                pass\n",
            ),
        ),
        f"{BLOCKED}::test_a_worker_that_was_killed_at_work_is_listed_no_more[sqlite]",
        "its lease keeper took it off the list",
    ),
)
