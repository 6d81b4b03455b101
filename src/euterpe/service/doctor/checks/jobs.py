"""Checks of jobs and of those who work on them."""

from __future__ import annotations

from collections import Counter
from typing import Final

from euterpe.model.diagnosis.facts import JobFacts, WaitingType
from euterpe.model.diagnosis.finding import Check, Complaint, error, warning
from euterpe.service.doctor.wording import DAY_US, HOUR_US, MINUTE_US, age_text, listed

IDLE_US: Final = 2 * MINUTE_US
"""Longer than a worker takes to start, and to notice a job."""
OLD_US: Final = HOUR_US
FEW: Final = 20
"""Ends; of fewer, no rate is worth telling."""
BAD_RATE: Final = 0.2


def expired_leases(facts: JobFacts) -> Complaint | None:
    if not facts.expired_leases:
        return None
    age = age_text(facts.oldest_expired_us)
    return error(
        f"{facts.expired_leases:,} running jobs lost their worker, the first {age} ago, and nobody takes them back",
        "start a worker, or `euterpe --role=outbox`: every such process sweeps",
    )


def overdue(facts: JobFacts) -> Complaint | None:
    if not facts.overdue:
        return None
    age = age_text(facts.oldest_overdue_us)
    return error(
        f"{facts.overdue:,} delayed or retrying jobs are due, the first for {age}, and nobody schedules them",
        "start a worker, or `euterpe --role=outbox`: every such process sweeps",
    )


def workers(facts: JobFacts) -> Complaint | None:
    oldest = max((w.oldest_age_us for w in facts.waiting), default=0)
    if oldest < IDLE_US or facts.workers or any(not worker.facts.stopping for worker in facts.alive):
        return None
    return error(
        f"jobs have waited for {age_text(oldest)}, and no worker is alive", "start one: euterpe worker myapp:queue"
    )


def _is_served(facts: JobFacts, waiting: WaitingType) -> bool:
    return any(worker.listens_to(waiting.queue) and worker.knows(waiting.type) for worker in facts.alive)


def unserved_types(facts: JobFacts) -> Complaint | None:
    """Where nobody works at all, that is the complaint."""
    if not facts.alive:
        return None
    old = [w for w in facts.waiting if w.oldest_age_us > IDLE_US and not _is_served(facts, w)]
    paused = {(p.kind, p.name) for p in facts.pauses}
    unserved = [w for w in old if ("queue", w.queue) not in paused and ("type", w.type) not in paused]
    if not unserved:
        return None
    names = listed(sorted({f"{w.type} (queue {w.queue}, {w.count:,})" for w in unserved}))
    return warning(
        f"no worker that is alive takes from these queues and knows these types: {names}",
        "start a worker whose app declares them and that takes from this queue, or `euterpe jobs cancel -q type:NAME`",
    )


def circuit_breakers(facts: JobFacts) -> Complaint | None:
    tripped = Counter(breaker.name for worker in facts.alive for breaker in worker.facts.breakers)
    if not tripped:
        return None
    texts = [f"{name} (on {count} of {len(facts.alive)} workers)" for name, count in sorted(tripped.items())]
    return warning(
        f"circuit breakers are open: too many jobs of {listed(texts)} failed, and these jobs wait",
        "`euterpe failures list` tells what fails; `euterpe workers list` which worker, and mend what its jobs need",
    )


def blocked_workers(facts: JobFacts) -> Complaint | None:
    blocked = [
        worker.worker_id if worker.facts.blocked is None else f"{worker.worker_id} in {worker.facts.blocked}"
        for worker in facts.alive
        if not worker.answers
    ]
    if not blocked:
        return None
    return warning(
        f"{len(blocked):,} of {len(facts.alive):,} workers keep the leases of their jobs and do not answer: "
        f"{listed(blocked)}. A handler blocks the process, and nothing else runs in it",
        "let such a handler be a plain `def`, or declare it with process=True; `euterpe workers list` shows since when",
    )


def queue_age(facts: JobFacts) -> Complaint | None:
    old = [w for w in facts.waiting if w.oldest_age_us > OLD_US]
    late = sorted({w.queue for w in old if w.type in facts.served_types or _is_served(facts, w)})
    if not late:
        return None
    return warning(
        f"jobs at the front of {listed(late)} have waited for more than {age_text(OLD_US)}: more comes than is done",
        "add workers or --concurrency; `euterpe stats` shows rates, `euterpe jobs why ID` one job's reason",
    )


def parked(facts: JobFacts) -> Complaint | None:
    if facts.oldest_parked_us < HOUR_US:
        return None
    age = age_text(facts.oldest_parked_us)
    return warning(
        f"{facts.parked:,} jobs wait for a slot of their concurrency key, the first for {age}",
        "`euterpe jobs why ID` names who holds the key; raise concurrency_limit if it is too low",
    )


def pauses(facts: JobFacts) -> Complaint | None:
    held = [p for p in facts.pauses if p.waiting or p.age_us > DAY_US]
    if not held:
        return None
    names = listed([f"{p.kind} {p.name} (for {age_text(p.age_us)}, {p.waiting:,} jobs wait)" for p in held])
    return warning(f"paused: {names}", f"if that is over: euterpe resume --{held[0].kind} {held[0].name}")


def failure_rate(facts: JobFacts) -> Complaint | None:
    if facts.ended_lately < FEW or facts.failed_lately < BAD_RATE * facts.ended_lately:
        return None
    share = 100 * facts.failed_lately // facts.ended_lately
    return warning(
        f"{share} % of the jobs that ended in the last hour failed ({facts.failed_lately:,} of {facts.ended_lately:,})",
        "euterpe failures list: the causes, and how to replay one",
    )


def old_failed(facts: JobFacts) -> Complaint | None:
    if not facts.old_failed:
        return None
    return warning(
        f"{facts.old_failed:,} failed jobs are older than a week, and retention will remove them",
        "`euterpe failures list` groups them; retry, dead-letter or export what matters",
    )


def stuck_operations(facts: JobFacts) -> Complaint | None:
    if not facts.stuck_operations:
        return None
    return warning(
        f"{facts.stuck_operations:,} bulk operations have not moved for ten minutes",
        "`euterpe operations list`; start a process that sweeps, or see whether a transaction holds their jobs",
    )


CHECKS: Final[tuple[Check[JobFacts], ...]] = (
    Check("workers_alive", "somebody works on what waits", workers),
    Check("expired_leases", "jobs of lost workers are taken back", expired_leases),
    Check("overdue_jobs", "due jobs are scheduled", overdue),
    Check("unserved_types", "every type that waits has a worker", unserved_types),
    Check("circuit_breakers", "no circuit breaker is open", circuit_breakers),
    Check("blocked_workers", "every worker answers", blocked_workers),
    Check("queue_age", "no queue falls behind", queue_age),
    Check("parked_jobs", "no concurrency key is full for long", parked),
    Check("paused", "nothing is paused that has jobs", pauses),
    Check("failure_rate", "few jobs fail", failure_rate),
    Check("old_failed_jobs", "no failed job is left behind", old_failed),
    Check("stuck_operations", "bulk operations move", stuck_operations),
)
