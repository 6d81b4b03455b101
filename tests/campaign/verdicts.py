"""Each promise, and everything in the history that breaks it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from euterpe.model.state import TERMINAL, State
from tests.campaign.plan import LIMIT
from tests.faults import history
from tests.faults.crew import Crew
from tests.faults.history import History
from tests.faults.recorder import rows
from tests.faults.stores import SQLITE
from tests.outbox.receiver import Got

SHOWN = 5


@dataclass(frozen=True, slots=True)
class Verdict:
    promise: str
    looked_at: int
    broken: list[str]

    def __str__(self) -> str:
        head = f"{'BROKEN' if self.broken else 'ok':7}{self.promise} ({self.looked_at} looked at)"
        more = f" and {len(self.broken) - SHOWN} more" if len(self.broken) > SHOWN else ""
        return head + (": " + "; ".join(self.broken[:SHOWN]) + more if self.broken else "")


def verdicts(
    url: str, crew: Crew, got: Iterable[Got], recoveries: list[tuple[float, float]], snapshots: int, over: list[str]
) -> list[Verdict]:
    past = history.read(url)
    moves = sum(map(len, past.moves.values()))
    submitted = len(crew.notes("submitted"))

    def verdict(promise: str, looked_at: int, problems: Iterable[str]) -> Verdict:
        return Verdict(promise, looked_at, list(problems))

    return [
        verdict("nothing acknowledged is lost", submitted, history.broken_acknowledgements(past, crew)),
        verdict("every job has ended", len(past.jobs), unended(past)),
        verdict("one end a job", len(past.jobs), history.second_ends(past)),
        verdict(
            "no write with an old version",
            moves,
            [*history.reused_versions(past), *history.attempts_not_closed_once(past), *outcomes_of_others(url)],
        ),
        verdict("every move is in the table", moves, history.illegal_moves(past)),
        verdict("an event if and only if its move committed", len(past.events), history.events_without_moves(past)),
        verdict("every event is delivered, with one body", len(past.events), undelivered(url, got)),
        verdict("attempts within their budget", len(past.closed), history.attempts_over_budget(past)),
        verdict("no dependent early", len(past.edges), history.early_dependents(past)),
        verdict("no dependent stranded", len(past.edges), history.stranded_dependents(past)),
        verdict("limits held", snapshots, [*over_limit(url, past), *over]),
        verdict("lost jobs run again within a lease and a half, sweep and a second", len(recoveries), late(recoveries)),
    ]


def unended(past: History) -> Iterator[str]:
    for job in past.jobs.values():
        if job.state not in TERMINAL:
            yield f"{job.id} is {job.state}"


def outcomes_of_others(url: str) -> Iterator[str]:
    """A result or an error that an earlier claim wrote over the one that was running."""
    completed = "SELECT CAST(id AS text), claim_version, result FROM inbox_jobs"
    for job_id, version, result in rows(url, f"{completed} WHERE state = 'completed' AND type = 'work'"):
        if bytes(result) != f'"{job_id}:{version}"'.encode():
            yield f"claim {version} of {job_id} has the result of {bytes(result).decode()}"
    failed = "SELECT CAST(job_id AS text), claim_version, CAST(error AS text) FROM job_attempts"
    for job_id, version, error in rows(url, f"{failed} WHERE CAST(error AS text) LIKE '%planned in%'"):
        if f"planned in {job_id}:{version}" not in error:
            yield f"claim {version} of {job_id} has the error of another: {error[:200]}"


def undelivered(url: str, got: Iterable[Got]) -> Iterator[str]:
    bodies: dict[str, set[bytes]] = defaultdict(set)
    for one in got:
        bodies[one.event_id].add(one.body)
    for event_id, state, body in rows(url, "SELECT CAST(id AS text), state, body FROM job_outbox_events"):
        if state != "completed" or event_id not in bodies:
            yield f"event {event_id} is {state}, and came {len(bodies[event_id])} times"
        elif bodies[event_id] != {bytes(body)}:
            yield f"event {event_id} came with another body than its own"


def over_limit(url: str, past: History) -> Iterator[str]:
    """How many jobs of a key ran after each commit that changed it."""
    return _over_in_recorded_order(url, past) if url.startswith(SQLITE) else _over_in_order_of_commits(url)


def _over_in_order_of_commits(url: str) -> Iterator[str]:
    """Postgres records a claim before it waits for its key's lock, so the order of the records is not that of the
    commits; their timestamps are: of two transactions that wait for one lock, the second commits later."""
    changes = rows(
        url,
        "SELECT CAST(extract(epoch FROM pg_xact_commit_timestamp(CAST(m.xid AS xid))) * 1000000 AS bigint), j.key,"
        " sum(CASE WHEN m.target = 'running' THEN 1 ELSE 0 END - CASE WHEN m.source = 'running' THEN 1 ELSE 0 END)"
        " FROM recorded_moves m JOIN (SELECT id, requester_id || '/' || concurrency_key AS key FROM inbox_jobs) j"
        " ON j.id = m.job_id WHERE j.key IS NOT NULL GROUP BY m.xid, j.key",
    )
    running: Counter[str] = Counter()
    for at_us, key, change in sorted(changes, key=lambda row: (row[0], row[2])):
        running[key] += int(change)
        if running[key] > LIMIT and change > 0:
            yield f"{running[key]} jobs of {key} ran at once after the commit at {at_us}"


def _over_in_recorded_order(url: str, past: History) -> Iterator[str]:
    """On SQLite the recorded order is that of the commits."""
    key_of = dict(rows(url, "SELECT id, concurrency_key FROM inbox_jobs WHERE concurrency_key IS NOT NULL"))
    running: Counter[str] = Counter()
    for move in sorted((m for moves in past.moves.values() for m in moves), key=lambda m: m.id):
        key = key_of.get(move.job_id)
        if key is None:
            continue
        if move.target is State.RUNNING and move.source is not State.RUNNING:
            running[key] += 1
            if running[key] > LIMIT:
                yield f"{running[key]} jobs of {key} ran at once when {move.job_id} was claimed"
        elif move.leaves_running:
            running[key] -= 1


def limits_in(url: str) -> list[str]:
    """Keys over their limit in one snapshot of the database."""
    over = rows(
        url,
        "SELECT concurrency_key, count(*) FROM inbox_jobs WHERE state = 'running' AND concurrency_key IS NOT NULL"
        f" GROUP BY concurrency_key HAVING count(*) > {LIMIT}",
    )
    return [f"{count} jobs of {key} ran at once" for key, count in over]


def late(recoveries: list[tuple[float, float]]) -> Iterator[str]:
    for took_s, allowed_s in recoveries:
        if took_s > allowed_s:
            yield f"it took {took_s:.1f} s of {allowed_s:.1f} s"
