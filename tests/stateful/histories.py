"""The machine: each rule does one thing to the oracle and to both engines, and compares what they say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, precondition, rule

from euterpe.model.claims.exchange import ClaimRequest, ProgressUpdate, Report
from euterpe.model.errors import EuterpeError
from euterpe.model.events.outbox import Delivery
from euterpe.model.job import Claim
from euterpe.model.retention import Retention
from euterpe.model.submitting.changes import Changes
from tests.stateful.agreement import attempts_agree, events_agree, moves_are_legal, nobody_is_early_or_stranded
from tests.stateful.lockstep import Lockstep
from tests.stateful.oracle import Oracle, Refused
from tests.stateful.oracle_job import DAY, SECOND, STAGES, Said
from tests.stateful.translation import outcome_of, predicted, seen, submission

OUTCOMES = [
    "completed", "completed", "permanent", "temporary", "temporary", "timeout", "system", "released", "cancelled",
]  # fmt: skip
KINDS = ["after", "after", "after_any", "chain", "fan_in"]
SPELLS: dict[str, tuple[int, list[str]]] = {
    "a second": (SECOND, []),
    "half a minute": (31 * SECOND, ["lifetimes"]),
    "a minute": (61 * SECOND, ["reclaim"]),
}
HELD_TIMES = [SECOND, 5 * SECOND, 25 * SECOND, 61 * SECOND, 3600 * SECOND, DAY, 3 * DAY]
KEPT = 8 * DAY
KEEP = Retention(completed_us=KEPT, cancelled_us=KEPT, failed_us=KEPT, dead_letter_us=KEPT, events_us=10_000 * DAY)


class Histories(RuleBasedStateMachine):
    """Each rule does one thing to the oracle and to both engines, and compares what they say."""

    lockstep: Lockstep

    jobs: Bundle[str] = Bundle("jobs")
    claims: Bundle[Claim] = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.lockstep.start_over()
        self.oracle = Oracle()
        self.before: dict[str, str] = {}
        self.held: list[Claim] = []

    @property
    def now(self) -> int:
        return self.lockstep.clock.now_us

    def both(self, act: Any, expected: Any) -> Any:
        """`expected` is what the oracle answers, or raises; the engines must do the same."""
        try:
            wanted = expected()
        except Refused as refusal:
            self._must_refuse(act, refusal.args[0])
            return None
        return self.lockstep.act(act), wanted

    def _must_refuse(self, act: Any, error_name: str) -> None:
        with pytest.raises(EuterpeError) as refused:
            self.lockstep.act(act)
        assert type(refused.value).__name__ == error_name

    outcome = st.sampled_from(OUTCOMES)

    # --- submit -----------------------------------------------------------------------------------

    said = st.builds(
        Said,
        st.sampled_from(["a", "b"]),
        st.integers(0, 4),
        st.sampled_from([0, 0, 0, 5 * SECOND, 3600 * SECOND]),
        st.sampled_from([3, 3, 2, 1]),
        st.sampled_from([7 * DAY, 7 * DAY, 30 * SECOND]),
        st.sampled_from([300 * SECOND, 20 * SECOND]),
        st.sampled_from([None, "all", "terminal"]),
    ).filter(lambda said: said.delay < said.lifetime)  # submit refuses the others

    @initialize(
        target=jobs,
        plan=st.lists(
            st.tuples(said, st.sampled_from([None, None, *KINDS]), st.integers(0, 9)), min_size=5, max_size=10
        ),
    )
    def first_jobs(self, plan: list[tuple[Said, str | None, int]]) -> Any:
        """Every history begins with work to do, some of it waiting for other work."""
        ids: list[str] = []
        for said, kind, which in plan:
            if kind is not None and ids:
                said.depends_on, said.kind = (ids[which % len(ids)], ids[-1]), kind
            ids.append(self._submit(said))
        return multiple(*ids)

    @rule(target=jobs, said=said)
    def submit(self, said: Said) -> Any:
        return self._submit(said)

    @rule(target=jobs, said=said, count=st.integers(2, 4))
    def submit_many(self, said: Said, count: int) -> Any:
        """Alike, and stored together: on Postgres they stand in one run of the line."""
        start = self.lockstep.ids.number
        ids = self.lockstep.ids.many(count)
        self.lockstep.ids.number = start
        results, _ = self.both(
            lambda store: store.submit_many([submission(said)] * count),
            lambda: [self.oracle.submit(self.now, job_id, said) for job_id in ids],
        )
        assert [submitted.job_id for submitted in results] == ids
        return multiple(*ids)

    @rule(target=jobs, said=said, count=st.integers(1, 3))
    def submit_limited(self, said: Said, count: int) -> Any:
        """With a concurrency key, of which two may run at once. A lifetime that ends would keep a place of its key."""
        said.limit, said.lifetime = 2, 7 * DAY
        return multiple(*(self._submit(said) for _ in range(count)))

    @rule(target=jobs, said=said, key=st.sampled_from(["k1", "k2"]))
    def submit_with_key(self, said: Said, key: str) -> Any:
        said.key = key
        # A small choice of requests, so that the same one comes again often enough.
        said.priority, said.delay, said.max_attempts, said.callback = said.priority % 2, 0, 3, None
        said.lifetime, said.visibility = 7 * DAY, 300 * SECOND
        job_id = self._submit(said)
        return multiple() if job_id is None else job_id

    @rule(
        target=jobs,
        said=said,
        needs=st.lists(jobs, min_size=1, max_size=3),
        kind=st.sampled_from(KINDS),
        unknown=st.sampled_from([()] * 9 + [("00000000-0000-4000-8000-000000000000",)]),
    )
    def submit_dependent(self, said: Said, needs: list[str], kind: str, unknown: tuple[str, ...]) -> Any:
        said.depends_on, said.kind = (*needs, *unknown), kind
        said.key = "refused" if unknown else None
        job_id = self._submit(said)
        return multiple() if job_id is None else job_id

    def _submit(self, said: Said) -> Any:
        job_id = self._next_id()
        answered = self.both(
            lambda store: store.submit(submission(said)), lambda: self.oracle.submit(self.now, job_id, said)
        )
        if answered is None:
            return None
        submitted, (expected_id, replayed) = answered
        assert (submitted.job_id, submitted.replayed) == (expected_id, replayed)
        return submitted.job_id

    @rule(target=jobs, claim=claims, said=said)
    def spawn(self, claim: Claim, said: Said) -> Any:
        return multiple(*self._spawn(claim, said))

    @precondition(lambda self: self.oracle.count("running"))
    @rule(target=jobs, which=st.integers(0, 9), summary=said, children=st.lists(said, min_size=1, max_size=3))
    def fan_out(self, which: int, summary: Said, children: list[Said]) -> Any:
        """A running job spawns children, before and after somebody waits for all of them."""
        running = self._running()
        parent = running[which % len(running)]
        ids = self._spawn(parent, children[0])
        summary.depends_on, summary.kind = (parent.job.id,), "fan_in"
        ids.append(self._submit(summary))
        for child in children[1:]:
            ids += self._spawn(parent, child)
        return multiple(*ids)

    def _spawn(self, claim: Claim, said: Said) -> list[str]:
        job_id = self._next_id()
        job = claim.job
        answered = self.both(
            lambda store: store.spawn(claim.lease, [submission(said)]),
            lambda: self.oracle.spawn(self.now, job.id, job.claim_version, job_id, said),
        )
        self.engines_and_oracle_agree()
        return [] if answered is None else [submitted.job_id for submitted in answered[0]]

    def _next_id(self) -> str:
        """The id that the store is about to give."""
        job_id = self.lockstep.ids.one()
        self.lockstep.ids.number -= 1
        return job_id

    # --- running ----------------------------------------------------------------------------------

    @precondition(lambda self: self.oracle.count("scheduled"))
    @rule(
        target=claims,
        limit=st.integers(1, 3),
        types=st.sampled_from([None, None, None, ("a",), ("b",), ("c",)]),
        ttl_s=st.sampled_from([30, 60]),
        worker=st.sampled_from(["w1", "w2"]),
    )
    def claim(self, limit: int, types: tuple[str, ...] | None, ttl_s: int, worker: str) -> Any:
        return multiple(*self._claim(limit, types, ttl_s, worker))

    @rule(
        target=claims,
        script=st.lists(st.sampled_from(["claim"] * 5 + OUTCOMES + ["sleep", *SPELLS]), min_size=2, max_size=12),
    )
    def work(self, script: list[str]) -> Any:
        """A stretch of ordinary business: jobs are claimed, the longest running one ends, time passes, sweeps run."""
        taken: list[Claim] = []
        for word in script:
            running = self._running()
            if word == "claim":
                taken += self._claim(2, None, 60, "w1")
            elif word in SPELLS:
                self.time_passes(*SPELLS[word])
            elif running and word == "sleep":
                taken += self._sleep(running[0], "temporary")
            elif running:
                self._settle([(running[0], word)], 0)
        return multiple(*taken)

    def _claim(self, limit: int, types: tuple[str, ...] | None, ttl_s: int, worker: str) -> list[Claim]:
        request = ClaimRequest(worker_id=worker, limit=limit, types=types, lease_ttl_us=ttl_s * SECOND)
        claims, expected = self.both(
            lambda store: store.claim(request),
            lambda: self.oracle.claim(self.now, worker, limit, types, ttl_s * SECOND),
        )
        assert [claim.job.id for claim in claims] == expected
        self.engines_and_oracle_agree()
        self.held += claims
        taken: list[Claim] = claims
        return taken

    @rule(held=st.lists(claims, min_size=1, max_size=3, unique_by=lambda c: c.lease.attempt_id))
    def heartbeat(self, held: list[Claim]) -> None:
        beats, expected = self.both(
            lambda store: store.heartbeat([claim.lease for claim in held], 45 * SECOND),
            lambda: [self.oracle.heartbeat(self.now, c.job.id, c.job.claim_version, 45 * SECOND) for c in held],
        )
        assert [(beat.alive, beat.cancel_requested) for beat in beats] == expected

    @rule(claim=claims, stage=st.sampled_from([None, *STAGES]), progress=st.sampled_from([0.0, 12.5, 100.0]))
    def advance(self, claim: Claim, stage: str | None, progress: float) -> None:
        news = ProgressUpdate(claim, stage, progress, "going", b"checkpoint")
        job = claim.job
        answered = self.both(
            lambda store: store.update_progress([news]),
            lambda: self.oracle.advance(job.id, job.claim_version, stage, progress, b"checkpoint"),
        )
        if answered is not None:
            assert answered[0] == [answered[1]]

    @precondition(lambda self: self.oracle.count("running"))
    @rule(which=st.integers(0, 9), outcome=outcome, retry_after_s=st.sampled_from([0, 0, 10]))
    def settle(self, which: int, outcome: str, retry_after_s: int) -> None:
        running = self._running()
        self._settle([(running[which % len(running)], outcome)], retry_after_s)

    @precondition(lambda self: self.oracle.count("running"))
    @rule(target=claims, which=st.integers(0, 9), outcome=outcome)
    def lose_the_lease_and_come_back(self, which: int, outcome: str) -> Any:
        running = self._running()
        return multiple(*self._sleep(running[which % len(running)], outcome))

    def _sleep(self, late: Claim, outcome: str) -> list[Claim]:
        """A worker sleeps past its lease, another one takes the job, and then the first one wakes and reports."""
        self.time_passes(301 * SECOND, ["reclaim"])
        self.time_passes(4 * SECOND, [])
        taken = self._claim(9, None, 60, "w2")
        self._settle([(late, outcome)], 0)
        self._settle([(late, "completed")], 0)
        return taken

    @precondition(lambda self: self.oracle.count("running"))
    @rule(which=st.integers(0, 9), outcome=outcome, force=st.sampled_from([False, False, True]))
    def cancel_and_hear_of_it_late(self, which: int, outcome: str, force: bool) -> None:
        running = self._running()
        claim = running[which % len(running)]
        self.operate(claim.job.id, "force" if force else "cancel")
        self._settle([(claim, outcome)], 0)

    def _running(self) -> list[Claim]:
        return [c for c in self.held if self.oracle.owns(c.job.id, c.job.claim_version)]

    @rule(pairs=st.lists(st.tuples(claims, outcome), min_size=1, max_size=4))
    def settle_any(self, pairs: list[tuple[Claim, str]]) -> None:
        self._settle(pairs, 0)

    def _settle(self, pairs: list[tuple[Claim, str]], retry_after_s: int) -> None:
        finished = [Report(claim, outcome_of(word, retry_after_s)) for claim, word in pairs]
        batch = [(c.job.id, c.job.claim_version, word, retry_after_s * SECOND) for c, word in pairs]
        verdicts, expected = self.both(
            lambda store: store.settle(finished), lambda: self.oracle.settle(self.now, batch)
        )
        assert [verdict.state for verdict in verdicts] == expected
        assert [verdict.accepted for verdict in verdicts] == [state is not None for state in expected]
        self.engines_and_oracle_agree()

    # --- operators --------------------------------------------------------------------------------

    @rule(target=jobs, job_id=jobs, what=st.sampled_from(["cancel", "force", "retry", "retry", "dead_letter"]))
    def operate(self, job_id: str, what: str) -> Any:
        if what == "retry":
            return self._retry(job_id)
        if what == "dead_letter":
            self.both(lambda store: store.dead_letter(job_id), lambda: self.oracle.dead_letter(job_id))
            return multiple()
        force = what == "force"
        answered = self.both(
            lambda store: store.cancel(job_id, force=force),
            lambda: self.oracle.cancel(self.now, job_id, force=force),
        )
        assert answered is None or answered[0] == answered[1]
        return multiple()

    @rule(job_id=jobs, priority=st.integers(0, 4))
    def reprioritise(self, job_id: str, priority: int) -> None:
        self.both(
            lambda store: store.update(job_id, Changes(priority=priority)),
            lambda: self.oracle.reprioritise(job_id, priority),
        )

    def _retry(self, job_id: str) -> Any:
        replay_id = self._next_id()
        answered = self.both(lambda store: store.retry(job_id), lambda: self.oracle.retry(self.now, job_id, replay_id))
        if answered is None:
            return multiple()
        job, expected_id = answered
        assert job.id == expected_id
        return multiple() if job.id == job_id else job.id

    # --- time and sweeps --------------------------------------------------------------------------

    @rule(
        step=st.sampled_from(HELD_TIMES),
        sweeps=st.lists(st.sampled_from(["promote", "reclaim", "lifetimes", "prune", "keys", "events"]), max_size=3),
    )
    def time_passes(self, step: int, sweeps: list[str]) -> None:
        self.lockstep.clock.advance(us=step)
        self._sweep("promote")
        for which in sweeps:
            self._sweep(which)

    def _sweep(self, which: str) -> None:
        match which:
            case "promote":
                found = self.both(lambda store: store.sweeps.promote(), lambda: self.oracle.promote(self.now))
                assert len(found[0]) == found[1]
            case "reclaim":
                self._equal(lambda store: store.sweeps.reclaim(), lambda: self.oracle.reclaim(self.now))
            case "lifetimes":
                self.oracle.end_lifetimes(self.now)
                while self.lockstep.act(lambda store: store.sweeps.end_lifetimes()):
                    pass
            case "prune":
                self._equal(lambda store: store.sweeps.prune(KEEP), lambda: self.oracle.prune(self.now, KEPT))
                for job_id in self.oracle.tombstones:
                    self.before.pop(job_id, None)
            case "keys":
                self._equal(lambda store: store.sweeps.expire_keys(), lambda: self.oracle.expire_keys(self.now))
            case "events":
                self.lockstep.act(lambda store: store.sweeps.reclaim_events())
        self.engines_and_oracle_agree()

    def _equal(self, act: Any, expected: Any) -> None:
        count, wanted = self.both(act, expected)
        assert count == wanted

    # --- outbox -----------------------------------------------------------------------------------

    @rule(end=st.sampled_from(["completed", "retrying", "dead_letter", None]))
    def deliver(self, end: str | None) -> None:
        undelivered: dict[str, int] = {}
        for event in self.lockstep.tables()["job_outbox_events"]:
            if event["state"] in ("scheduled", "running", "retrying"):
                undelivered.setdefault(event["job_id"], event["sequence"])
        events = self.lockstep.act(lambda store: store.outbox.claim("d1", 1000, 30 * SECOND))
        assert all(undelivered[event.job_id] == event.sequence for event in events)
        if end is not None and events:
            sent = [
                Delivery(event_id=e.id, claim_version=e.claim_version, state=end, outcome="x", delay_us=SECOND)
                for e in events
            ]
            assert self.lockstep.act(lambda store: store.outbox.settle(sent)) == {e.id for e in events}

    # --- what must hold after every step ----------------------------------------------------------

    @invariant()
    def line_agrees(self) -> None:
        self.lockstep.check_line()

    @invariant()
    def engines_and_oracle_agree(self) -> None:
        tables = self.lockstep.tables()
        rows = {row["id"]: row for row in tables["inbox_jobs"]}
        assert list(rows) == [j.id for j in sorted(self.oracle.jobs.values(), key=lambda j: j.place)]
        for job in self.oracle.jobs.values():
            assert seen(rows[job.id]) == predicted(job)
        attempts_agree(self.oracle, tables["job_attempts"])
        events_agree(self.oracle, tables["job_outbox_events"])
        keys = {(row["scope"].partition("/")[2], row["key"]): row["job_id"] for row in tables["idempotency_keys"]}
        assert keys == {name: key.job_id for name, key in self.oracle.keys.items()}
        assert {row["job_id"] for row in tables["euterpe_tombstones"]} == self.oracle.tombstones.keys()
        moves_are_legal(self.before, rows)
        nobody_is_early_or_stranded(self.oracle, rows, tables["job_dependencies"])
