"""What the queue should do, in plain dictionaries and loops, written from model.md and not from the code.

No SQL, no cleverness: every question is answered by looking at all jobs. It knows one requester, one queue, and a
backoff without jitter of 1 s, 2 s, 4 s.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.stateful.oracle_job import DAY, SECOND, STAGES, Key, OracleJob, Said

REFUNDS = 20
EXECUTION_TIMEOUT = 1_800 * SECOND
OVERRUN = 30 * SECOND
GRAVITY = ("cancelled", "failed", "dead_letter")


class Refused(Exception):
    """The oracle says no; `args[0]` is the name of the error that the store must raise."""


class Oracle:
    def __init__(self) -> None:
        self.jobs: dict[str, OracleJob] = {}
        self.keys: dict[tuple[str, str], Key] = {}
        self.tombstones: dict[str, int] = {}
        self.events: list[tuple[str, int, str]] = []
        self._places = 0

    # --- submit -----------------------------------------------------------------------------------

    def submit(self, now: int, job_id: str, said: Said, parent: OracleJob | None = None) -> tuple[str, bool]:
        """(id of the job that answers, whether it was there before)"""
        if said.key is not None:
            known = self.keys.get((said.type, said.key))
            if known is not None and not self._key_is_free(known, now):
                if known.request != said.same_request():
                    raise Refused("IdempotencyConflict")
                return known.job_id, True
        if any(d not in self.jobs for d in said.depends_on):
            raise Refused("UnknownDependency")
        self._store(now, job_id, said, parent)
        if said.key is not None:
            self.keys[(said.type, said.key)] = Key(said.same_request(), job_id, now + DAY)
        return job_id, False

    def _store(self, now: int, job_id: str, said: Said, parent: OracleJob | None) -> OracleJob:
        edges = set(said.depends_on)
        if said.depends_on and said.kind == "fan_in":
            for root in said.depends_on:
                edges |= self._descendants(root)
        needed = [self.jobs[d] for d in edges]
        job = OracleJob(
            job_id,
            self._next_place(),
            said,
            "pending",
            min([said.priority, *(d.priority for d in needed)]),
            now + said.delay,
            now,
            now + said.lifetime,
            depth=1 + max((d.depth for d in needed), default=0),
            edges=edges,
            waits={d.id for d in needed if not d.ended},
            parent=parent.id if parent else None,
        )
        self.jobs[job_id] = job
        finished = [d.state for d in needed if d.ended]
        bad_end = self._shared_end(said.kind, finished)
        if bad_end is not None:
            job.state, job.completed_at, job.error_code = bad_end, now, "dependency_ended"
            self._tell(job)
        elif not job.waits or (said.kind == "after_any" and finished):
            self._let_go(now, job)
        if parent is not None:
            waiting = [j for j in self.jobs.values() if j.state == "pending" and j.said.kind == "fan_in"]
            for fan_in in (j for j in waiting if parent.id in j.edges):
                fan_in.edges.add(job_id)
                fan_in.waits.add(job_id)
            if job.ended:
                self._propagate(now, [job])
        return job

    def spawn(self, now: int, parent_id: str, version: int, job_id: str, said: Said) -> None:
        parent = self._owned(parent_id, version)
        if parent is None:
            raise Refused("StaleLease")
        self._store(now, job_id, said, parent)

    def _descendants(self, root: str) -> set[str]:
        found: set[str] = set()
        frontier = {root}
        while frontier:
            frontier = {j.id for j in self.jobs.values() if j.parent in frontier} - found
            found |= frontier
        return found

    def _next_place(self) -> int:
        self._places += 1
        return self._places

    # --- running ----------------------------------------------------------------------------------

    def claim(self, now: int, worker: str, limit: int, types: tuple[str, ...] | None, ttl: int) -> list[str]:
        ready = [
            j
            for j in self.jobs.values()
            if j.state == "scheduled" and j.expires_at > now and (types is None or j.said.type in types)
        ]
        ready.sort(key=lambda j: (j.priority, j.place))
        taken: list[OracleJob] = []
        for job in ready:
            if len(taken) < limit and self._has_place(job, taken):
                taken.append(job)
        for job in taken:
            job.state, job.stage, job.worker = "running", "claimed", worker
            job.version += 1
            job.attempts += 1
            job.lease, job.started_at = now + min(ttl, job.said.visibility, EXECUTION_TIMEOUT + OVERRUN), now
            job.beaten_at = now
            job.progress = None
            self._moved(job)
        return [j.id for j in taken]

    def _has_place(self, job: OracleJob, taken: list[OracleJob]) -> bool:
        if job.said.limit is None:
            return True
        running = [*taken, *(j for j in self.jobs.values() if j.state == "running")]
        return sum(j.said.limit is not None and j.said.type == job.said.type for j in running) < job.said.limit

    def reprioritise(self, job_id: str, priority: int) -> None:
        job = self.jobs.get(job_id)
        if job is None:
            raise Refused("JobPruned" if job_id in self.tombstones else "JobNotFound")
        if priority != job.priority and job.state not in ("pending", "scheduled", "delayed", "retrying"):
            raise Refused("IllegalTransition")
        job.priority = priority

    def heartbeat(self, now: int, job_id: str, version: int, ttl: int) -> tuple[bool, bool]:
        """(alive, asked to cancel)"""
        job = self._owned(job_id, version)
        if job is None:
            return False, False
        latest = (job.started_at or 0) + EXECUTION_TIMEOUT + OVERRUN
        if now > latest:
            return False, False
        job.lease, job.beaten_at = min(now + min(ttl, job.said.visibility), latest), now
        return True, job.cancel_seen == job.version

    def advance(self, job_id: str, version: int, stage: str | None, progress: float, checkpoint: bytes) -> bool:
        job = self._owned(job_id, version)
        if job is None:
            return False
        if stage is not None and STAGES.index(stage) < STAGES.index(job.stage or "claimed"):
            raise Refused("IllegalTransition")
        job.progress, job.checkpoint = progress, checkpoint
        if stage is not None and stage != job.stage:
            job.stage = stage
            self._moved(job)
        return True

    def settle(self, now: int, batch: Iterable[tuple[str, int, str, int]]) -> list[str | None]:
        """(job, version, outcome, retry_after) each; the states they led to, None for what was stale."""
        answers: list[str | None] = []
        ended: list[OracleJob] = []
        for job_id, version, outcome, retry_after in batch:
            job = self._owned(job_id, version)
            if job is None:
                answers.append(self._confirmed(job_id, version, outcome))
                continue
            self._end_attempt(now, job, outcome, retry_after)
            answers.append(job.state)
            if job.ended:
                ended.append(job)
        self._propagate(now, ended)
        return answers

    def _confirmed(self, job_id: str, version: int, outcome: str) -> str | None:
        job = self.jobs.get(job_id)
        closed = [c for c in (job.closed if job else []) if c[0] == version and c[2] == outcome]
        return closed[0][3] if closed else None

    def _end_attempt(self, now: int, job: OracleJob, outcome: str, retry_after: int) -> None:
        asked = job.cancel_seen == job.version
        attempt = job.attempts
        verdict, category = outcome, outcome
        if outcome == "released" and job.releases >= REFUNDS:
            verdict = "temporary"
        if verdict == "completed":
            self._end(now, job, "completed", None)
            job.result = b"1"
        elif verdict == "released":
            job.attempts -= 1
            job.releases += 1
            if asked:
                self._end(now, job, "cancelled", job.error_code)
            else:
                job.state, job.scheduled_at = "scheduled", now
                self._moved(job)
        elif verdict == "cancelled":
            self._end(now, job, "cancelled", "cancelled")
        elif verdict == "permanent":
            self._clear(job)
            self._end(now, job, "failed", "permanent")
        elif job.attempts - job.lost + job.refunded >= job.said.max_attempts:
            self._end(now, job, "dead_letter", category)
        elif asked:
            self._clear(job)
            self._end(now, job, "cancelled", category)
        else:
            self._clear(job)
            job.state, job.error_code = "retrying", category
            job.run_at = now + max(SECOND * 2 ** (job.attempts - 1), retry_after)
            self._moved(job)
        job.closed.append((job.version, attempt, outcome, job.state))
        job.lease = None

    def _clear(self, job: OracleJob) -> None:
        """An outcome of its own: the attempts that were lost with workers are given back."""
        job.attempts -= job.lost - job.refunded
        job.lost = job.refunded = 0

    # --- operators --------------------------------------------------------------------------------

    def cancel(self, now: int, job_id: str, *, force: bool) -> str:
        job = self._found(job_id)
        if job.state == "cancelled":
            return "cancelled"
        if job.ended:
            raise Refused("IllegalTransition")
        if job.state == "running" and not force:
            job.cancel_seen = job.version
            return "running"
        self._take_away(now, job, "cancelled", "cancelled", "forced")
        self._propagate(now, [job])
        return "cancelled"

    def retry(self, now: int, job_id: str, replay_id: str) -> str:
        job = self._found(job_id)
        if not job.ended:
            raise Refused("IllegalTransition")
        if job.state == "failed" and job.attempts < job.said.max_attempts:
            job.waits_no_more |= job.error_code == "dependency_ended"
            job.state, job.scheduled_at, job.run_at, job.completed_at = "scheduled", now, now, None
            self._moved(job)
            return job_id
        again = Said(
            job.said.type,
            job.priority,
            0,
            job.said.max_attempts,
            job.said.lifetime,
            job.said.visibility,
            job.said.callback,
        )
        self._store(now, replay_id, again, None).replay_of = job_id
        return replay_id

    def dead_letter(self, job_id: str) -> None:
        job = self._found(job_id)
        if job.state != "failed":
            raise Refused("IllegalTransition")
        job.state = "dead_letter"
        self._moved(job)

    def _found(self, job_id: str) -> OracleJob:
        if job_id in self.jobs:
            return self.jobs[job_id]
        raise Refused("JobPruned" if job_id in self.tombstones else "JobNotFound")

    # --- sweeps -----------------------------------------------------------------------------------

    def promote(self, now: int) -> int:
        due = [j for j in self.jobs.values() if j.state in ("delayed", "retrying") and j.run_at <= now]
        for job in due:
            job.state, job.scheduled_at = "scheduled", now
            self._moved(job)
        return len(due)

    def reclaim(self, now: int) -> int:
        lost = [j for j in self.jobs.values() if j.state == "running" and j.lease is not None and j.lease < now]
        for job in lost:
            asked, attempt = job.cancel_seen == job.version, job.attempts
            overran = job.beaten_at >= (job.started_at or 0) + EXECUTION_TIMEOUT
            why = "timeout" if overran else "lost_lease"
            if overran:
                self._clear(job)
            else:
                job.lost += 1
                if job.lost == 1 < job.attempts == job.said.max_attempts:
                    job.refunded = 1
                    job.attempts -= 1
            if job.attempts >= job.said.max_attempts:
                self._end(now, job, "dead_letter", why)
            elif asked:
                self._end(now, job, "cancelled", why)
            else:
                job.state, job.error_code = "retrying", why
                job.run_at = now + SECOND * 2 ** (job.attempts - 1)
                self._moved(job)
            job.closed.append((job.version, attempt, "timeout" if overran else "lost", job.state))
            job.lease = None
        self._propagate(now, [j for j in lost if j.ended])
        return len(lost)

    def end_lifetimes(self, now: int) -> int:
        """Running jobs first, then waiting ones that their ends have left alone; repeated until none is left."""
        total = 0
        while True:
            over = [j for j in self.jobs.values() if not j.ended and j.expires_at <= now]
            if not over:
                return total
            waiting = {j.id: j.state for j in over if j.state != "running"}
            running = [j for j in over if j.state == "running"]
            for job in running:
                self._take_away(now, job, "dead_letter", "lifetime_exceeded", "forced")
            self._propagate(now, running)
            still = [j for j in over if j.id in waiting and j.state == waiting[j.id]]
            for job in still:
                self._take_away(now, job, "dead_letter", "lifetime_exceeded", "forced")
            self._propagate(now, still)
            total += len(running) + len(still)

    def prune(self, now: int, keep: int) -> int:
        gone = [j for j in self.jobs.values() if j.completed_at is not None and j.completed_at <= now - keep]
        for job in gone:
            del self.jobs[job.id]
            self.tombstones[job.id] = now
        for job in self.jobs.values():
            job.edges &= self.jobs.keys()
        return len(gone)

    def expire_keys(self, now: int) -> int:
        free = [name for name, key in self.keys.items() if self._key_is_free(key, now)]
        for name in free:
            del self.keys[name]
        return len(free)

    def _key_is_free(self, key: Key, now: int) -> bool:
        """Its window is over, and so is the job's life and a day more; of a pruned job, a day since then."""
        if key.expires_at > now or self.tombstones.get(key.job_id, now - DAY) + DAY > now:
            return False
        job = self.jobs.get(key.job_id)
        return job is None or (job.completed_at is not None and job.completed_at + DAY <= now)

    def owns(self, job_id: str, version: int) -> bool:
        return self._owned(job_id, version) is not None

    def count(self, state: str) -> int:
        return sum(job.state == state for job in self.jobs.values())

    # --- the common ground ------------------------------------------------------------------------

    def _owned(self, job_id: str, version: int) -> OracleJob | None:
        job = self.jobs.get(job_id)
        return job if job is not None and job.state == "running" and job.version == version else None

    def _moved(self, job: OracleJob) -> None:
        job.transitions += 1
        self._tell(job)

    def _tell(self, job: OracleJob) -> None:
        if job.said.callback is None:
            return
        if job.ended or (job.said.callback == "all" and job.state in ("running", "retrying")):
            self.events.append((job.id, job.transitions, f"job.{job.state}"))

    def _end(self, now: int, job: OracleJob, state: str, error_code: str | None) -> None:
        if state == "dead_letter" and job.state == "running":
            job.transitions += 1  # 000: it passes `failed` on its way, without an event of its own
        job.state, job.completed_at, job.error_code = state, now, error_code
        job.waits = set()
        self._moved(job)

    def _take_away(self, now: int, job: OracleJob, state: str, error_code: str, outcome: str) -> None:
        running, version, attempt = job.state == "running", job.version, job.attempts
        self._end(now, job, state, error_code)
        job.lease = None
        if running:
            job.version += 1
            job.closed.append((version, attempt, outcome, state))

    def _let_go(self, now: int, job: OracleJob) -> None:
        """Out of `pending`; at submission that is part of the insert and not a transition of its own."""
        job.waits = set()
        job.state = "delayed" if job.run_at > now else "scheduled"
        job.scheduled_at = None if job.run_at > now else now

    def _propagate(self, now: int, ended: list[OracleJob]) -> None:
        while ended:
            ends = {j.id: j.state for j in ended}
            ended = []
            for job in [j for j in self.jobs.values() if j.state == "pending" and j.edges & ends.keys()]:
                hit = [ends[d] for d in job.edges if d in ends]
                bad_end = self._shared_end(job.said.kind, hit)
                job.waits -= ends.keys()
                if bad_end is not None:
                    self._end(now, job, bad_end, "dependency_ended")
                    ended.append(job)
                elif job.said.kind == "after_any" or not job.waits:
                    self._let_go(now, job)
                    job.transitions += 1

    @staticmethod
    def _shared_end(kind: str, ends: list[str]) -> str | None:
        bad = [end for end in ends if end != "completed"]
        if not bad or kind == "after_any":
            return None
        return "cancelled" if kind == "chain" else max(bad, key=GRAVITY.index)
