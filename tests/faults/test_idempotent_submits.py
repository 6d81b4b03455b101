"""One key, many processes at the same moment: one job, and the same answer for everybody."""

from __future__ import annotations

from tests.faults import actors
from tests.faults.crew import Crew, together
from tests.faults.history import check
from tests.faults.recorder import rows


async def test_fifty_submits_with_one_key_make_one_job_and_fifty_identical_answers(database: str, crew: Crew) -> None:
    processes = crew.start_many(10, actors.key_submitter, database, "only-once", b"{}", 5)
    said = [answer for answers in await together(processes) for answer in answers]
    assert len(said) == 50
    assert {kind for kind, _, _ in said} == {"stored"}
    assert len({response for _, response, _ in said}) == 1, "the answers differ"
    assert sum(1 for _, _, replayed in said if not replayed) == 1, "exactly one was the first"
    assert rows(database, "SELECT count(*) FROM inbox_jobs") == [(1,)]
    assert rows(database, "SELECT count(*) FROM idempotency_keys") == [(1,)]
    check(database, crew)


async def test_one_key_for_two_requests_makes_one_job_and_a_conflict_for_all_who_sent_the_other(
    database: str, crew: Crew
) -> None:
    processes = [
        crew.start(actors.key_submitter, database, "contested", b'{"side": %d}' % (i % 2), 3, i) for i in range(8)
    ]
    reported = await together(processes)
    kinds = [{kind for kind, _, _ in answers} for answers in reported]
    winner = 0 if kinds[0] == {"stored"} else 1
    assert kinds == [{"stored"} if i % 2 == winner else {"conflict"} for i in range(8)]
    [(job_id,)] = rows(database, "SELECT CAST(id AS text) FROM inbox_jobs")
    conflicts = {said for answers in reported for kind, said, _ in answers if kind == "conflict"}
    assert conflicts == {job_id.encode()}, "the conflict names the job that has the key"
    check(database, crew)
