"""Bugs in what a worker does without threads, descriptors or its lease keeper."""

from __future__ import annotations

from tests.planted.planting import Bug, Edit

SHORTAGE = "tests/worker/test_shortage.py"

SHORTAGE_BUGS = (
    Bug(
        "a_worker_that_waits_for_its_keeper_does_not_hear_the_order_to_stop",
        (
            Edit(
                "WorkerLoop._until_leases_are_kept",
                "            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)\n",
                "            await asyncio.wait(waits[:1])\n",
            ),
        ),
        f"{SHORTAGE}::test_an_order_to_stop_is_heard_while_the_worker_waits_for_its_keeper[sqlite]",
        "it waited for its keeper",
    ),
    Bug(
        "a_job_pays_for_a_thread_that_its_worker_does_not_have",
        (
            Edit(
                "worker/failures.py:_described",
                "Failure(Category.SYSTEM, text_of(error), HANDLER_NOT_STARTED, unfit=True)",
                "Failure(Category.SYSTEM, text_of(error), HANDLER_NOT_STARTED)",
            ),
        ),
        f"{SHORTAGE}::test_a_job_that_gets_no_thread_goes_back_uncharged_and_the_worker_says_so_once[sqlite]",
        "dead_letter, and not retrying",
    ),
    Bug(
        "a_job_pays_for_a_process_that_its_worker_cannot_start",
        (
            Edit(
                "Child.start",
                "        except (OSError, MemoryError) as error:",
                "        except MemoryError as error:",
            ),
        ),
        f"{SHORTAGE}::test_a_job_that_gets_no_process_goes_back_uncharged",
        "dead_letter, and not completed",
    ),
    Bug(
        "every_handler_that_gets_no_thread_is_an_error_in_the_log",
        (
            Edit(
                "Shortage.begin",
                "        if time.monotonic() - self._warned_at >= WARN_AGAIN_S:\n",
                "        if True:\n",
            ),
        ),
        f"{SHORTAGE}::test_a_job_that_gets_no_thread_goes_back_uncharged_and_the_worker_says_so_once[sqlite]",
        "== 1",
    ),
)
