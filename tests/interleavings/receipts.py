"""A world of jobs in chunks and under receipts (ADR 017), and the programs that meet on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import asyncpg
import pytest

from euterpe.model.claims.exchange import LEASE_TTL_US, ClaimRequest, ProgressUpdate, Report
from euterpe.model.claims.outcome import Failed, Outcome, Released, Success
from euterpe.model.claims.outcome import settle as decide
from euterpe.model.claims.worker_reports import LOCKED, TokenHeartbeat, TokenReport, hash_token
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.job import Claim
from euterpe.model.state import TERMINAL, State
from euterpe.model.submitting.batch import Parent, Unit, drafts_of
from euterpe.model.submitting.changes import Changes
from euterpe.model.submitting.submission import Submission
from euterpe.stores.sql.exchange import one_statement, receipts
from euterpe.stores.sql.exchange.simple_jobs import SimpleCompletions, simple_completions
from euterpe.stores.sql.jobs import claim as jobs_claim
from euterpe.stores.sql.jobs import heartbeat, settle
from euterpe.stores.sql.maintenance import operator, sweep
from euterpe.stores.sql.postgres.engine import PostgresEngine
from euterpe.stores.sql.program import Program
from euterpe.stores.sql.store import SqlStore
from euterpe.stores.sql.submitting import submit, uniform_batch
from euterpe.stores.sql.worker_protocol.receipts import claim_for_receipt, complete_by_receipt
from euterpe.stores.sql.worker_protocol.store import finish, renew_leases
from tests.conformance.clock import FrozenClock
from tests.interleavings.driver import Actor
from tests.interleavings.scenario import kept

TABLES: Final = (
    "inbox_jobs", "euterpe_ready", "euterpe_claims", "euterpe_ended_attempts", "job_dependencies", "job_outbox_events",
)  # fmt: skip
TOLD: Final = ("ran", "beside", "third")
OTHER: Final = ClaimRequest(worker_id="other", limit=2, lease_ttl_us=LEASE_TTL_US)
SUCCESS: Final = Success(b"1")
SECRET: Final = b"s" * 32
OUTCOME_HASH: Final = b"o" * 32
BROKEN: Final = Failed(Failure(Category.PERMANENT, "broken"))


@dataclass
class Receipted:
    """Jobs by name. `ran` and `beside` run under one receipt, and a callback is told of their ends; `lost` runs under
    one that has run out. These have tokens. `ageing` runs under one whose jobs are past their lifetime; `aged` waits
    past its lifetime, and four more wait in two chunks."""

    claims: dict[str, Claim]
    ids: dict[str, str]
    restore: str

    def reports(self, *names: str) -> list[Report]:
        return [Report(self.claims[name], SUCCESS) for name in names]


async def make_receipted(
    engine: PostgresEngine, clock: FrozenClock, connection: asyncpg.Connection[Any], patched: pytest.MonkeyPatch
) -> Receipted:
    patched.setattr(uniform_batch, "CHUNKED_FROM", 2)
    store = SqlStore(engine)
    await store.open()
    ids: dict[str, str] = {}
    claims: dict[str, Claim] = {}

    async def wait(*names: str, **said: Any) -> None:
        stored = await store.submit_many([Submission(type=names[0], payload=name.encode(), **said) for name in names])
        ids.update(zip(names, [receipt.job_id for receipt in stored], strict=True))

    async def run(*names: str, **said: Any) -> None:
        await wait(*names, **said)
        request = ClaimRequest(worker_id="w", limit=len(names), types=(names[0],))
        done = await engine.write_one(lambda: one_statement.exchange_chunks(SimpleCompletions(), request))
        claims.update(zip(names, done.claims, strict=True))

    async def run_over_http(*names: str, **said: Any) -> None:
        await wait(*names, **said)
        request = ClaimRequest(worker_id="w", limit=len(names), types=(names[0],))
        done = await engine.write_one(lambda: claim_for_receipt(request, SECRET))
        claims.update(zip(names, done.claims or (), strict=True))

    await run_over_http("lost", "lost too")
    await run("ageing", "ageing too", lifetime_us=100_000_000)
    await wait("aged", "aged too", lifetime_us=100_000_000)
    clock.advance(seconds=200)
    await run_over_http(*TOLD, callback_url="https://receiver.example/hook", callback_events="terminal")
    await wait("waits", "next")
    await wait("behind", "last")
    await store.close()
    return Receipted(claims, ids, await kept(connection, TABLES))


def _settle(world: Receipted, names: tuple[str, ...], outcome: Outcome) -> Program[Any]:
    return settle.settle_or_confirm([decide(world.claims[n].job, outcome, Random(1)) for n in names], "postgres")


def _exchange(world: Receipted, names: tuple[str, ...], request: ClaimRequest) -> Program[Any]:
    completions = simple_completions(world.reports(*names))
    assert completions is not None
    return one_statement.exchange_chunks(completions, request)


def _reports_by_token(world: Receipted, names: tuple[str, ...]) -> list[TokenReport]:
    leases = [world.claims[name].lease for name in names]
    return [TokenReport(at.job_id, 1, hash_token(at.token or ""), SUCCESS, OUTCOME_HASH) for at in leases]


def _complete_by_receipt(world: Receipted) -> Program[Any]:
    names = SETTLED["http_complete"]
    return complete_by_receipt(
        sorted(_reports_by_token(world, names), key=lambda report: report.job_id),
        {world.claims[name].job.id: world.claims[name].job for name in names},
    )


def _renew_by_token(world: Receipted) -> Program[Any]:
    leases = [world.claims[name].lease for name in BEATING]
    return renew_leases([TokenHeartbeat(at.job_id, hash_token(at.token or ""), 1) for at in leases], LEASE_TTL_US)


def _spawn(world: Receipted) -> Program[Any]:
    lease = world.claims["ran"].lease
    unit = Unit(drafts_of([Submission(type="new")]), parent=Parent(lease.job_id, lease.claim_version))
    return submit.submit([unit])


def _submit_after(world: Receipted, *, may_hold: bool) -> Program[Any]:
    wanted = (world.ids["ran"], world.ids["waits"])
    return submit.submit([Unit(drafts_of([Submission(type="after", depends_on=wanted)]))], may_hold=may_hold)


SETTLED: Final = {
    "turn": ("ran", "lost"),
    "complete": ("ran", "beside", "lost"),
    "fail": ("ran", "lost"),
    "release": ("ran", "beside"),
    "http_complete": ("lost", "lost too"),
    "http_finish": ("ran", "beside", "lost"),
}
BEATING: Final = ("ran", "beside", "lost")
PROGRAMS: Final[dict[str, Callable[[Receipted], Program[Any]]]] = {
    "turn": lambda w: _exchange(w, SETTLED["turn"], OTHER),
    "claim": lambda w: _exchange(w, (), OTHER),
    "claim_in_full": lambda _: jobs_claim.claim(OTHER, "postgres"),
    "complete": lambda w: _settle(w, SETTLED["complete"], SUCCESS),
    "fail": lambda w: _settle(w, SETTLED["fail"], BROKEN),
    "release": lambda w: _settle(w, SETTLED["release"], Released()),
    "complete_joined": lambda w: settle.complete_joined(decide(w.claims["ran"].job, SUCCESS, Random(1)), "postgres"),
    "heartbeat": lambda w: heartbeat.heartbeat([w.claims[n].lease for n in BEATING], LEASE_TTL_US),
    "advance": lambda w: heartbeat.update_progress([ProgressUpdate(w.claims["ran"], progress=50)], [None]),
    "cancel_running": lambda w: operator.cancel(w.ids["ran"], None, "postgres", force=False),
    "cancel_by_force": lambda w: operator.cancel(w.ids["ran"], None, "postgres", force=True),
    "cancel_waiting": lambda w: operator.cancel(w.ids["waits"], None, "postgres", force=False),
    "update_waiting": lambda w: operator.update(w.ids["next"], None, Changes(priority=0)),
    "submit_after": lambda w: _submit_after(w, may_hold=True),
    "spawn": _spawn,
    "put_on_rows": lambda _: receipts.put_on_rows(worker_id="w"),
    "reclaim": lambda _: sweep.reclaim(10, "postgres", Random(1)),
    "release_unbegun": lambda w: sweep.release_unbegun(
        "w", [(w.claims["ran"].job.id, w.claims["ran"].job.claim_version)], "postgres", Random(1)
    ),
    "http_claim": lambda _: claim_for_receipt(OTHER, SECRET),
    "http_complete": _complete_by_receipt,
    "http_finish": lambda w: finish(_reports_by_token(w, SETTLED["http_finish"]), "postgres", Random(1)),
    "http_heartbeat": _renew_by_token,
    "end_lifetimes": lambda _: sweep.end_lifetimes(10, "postgres"),
}


@dataclass
class Found:
    world: Receipted
    actors: dict[str, Actor]
    jobs: dict[str, Any]
    places: Counter[str]
    counted: list[tuple[int, int]]
    moves: list[Any]
    events: list[tuple[str, str]]


async def look(connection: asyncpg.Connection[Any], world: Receipted, actors: dict[str, Actor]) -> Found:
    jobs = await connection.fetch("SELECT *, id::text AS id FROM inbox_jobs")
    places: Counter[str] = Counter()
    for table in ("euterpe_ready", "euterpe_claims"):
        rows = await connection.fetch(
            f"SELECT j.id::text, '{table}' = 'euterpe_ready' OR j.chunk IS NOT NULL AND j.state = 'scheduled'"
            f" FROM {table} AS p JOIN inbox_jobs AS j ON p.ranges @> j.seq"
        )
        places.update(row[0] for row in rows if row[1])
    chunks = await connection.fetch(
        "SELECT jobs, (SELECT SUM(upper(x) - lower(x)) FROM unnest(ranges) AS x) FROM euterpe_ready"
    )
    moves = await connection.fetch("SELECT *, job_id::text AS job_id FROM audit ORDER BY n")
    events = [(row[0], row[1]) for row in await connection.fetch("SELECT job_id::text, type FROM job_outbox_events")]
    counted = [(row[0], int(row[1])) for row in chunks]
    return Found(world, actors, {job["id"]: job for job in jobs}, places, counted, moves, events)


def faults(found: Found) -> list[str]:
    rules = (one_place, versions, handed_out_once, answers, dependents, told_once, nobody_waits_for_each_other)
    return [f"{rule.__name__}: {fault}" for rule in rules for fault in rule(found)]


def _name(found: Found, job_id: str) -> str:
    return next((name for name, known in found.world.ids.items() if known == job_id), "a new job")


def one_place(found: Found) -> list[str]:
    """A plain job is in one chunk or under one receipt, and no other is in a chunk."""
    wrong = []
    for job_id, job in found.jobs.items():
        is_plain = job["chunk"] is not None and job["state"] == State.SCHEDULED
        if found.places[job_id] != int(is_plain):
            wrong.append(f"{_name(found, job_id)} ({job['state']}) is in {found.places[job_id]} places")
        if job["parked"] != is_plain and job["state"] != State.COMPLETED:
            wrong.append(f"{_name(found, job_id)} ({job['state']}) is parked: {job['parked']}")
    return wrong + [f"a chunk says {said} and has {has}" for said, has in found.counted if said != has]


def versions(found: Found) -> list[str]:
    wrong = []
    for move in found.moves:
        if move["old_state"] is not None:
            if move["new_version"] < move["old_version"]:
                wrong.append(f"a version went back to {move['new_version']}")
            if move["old_state"] in TERMINAL:
                wrong.append(f"{_name(found, move['job_id'])} was {move['old_state']} and became {move['new_state']}")
    return wrong


def handed_out_once(found: Found) -> list[str]:
    claims = Counter((claim.job.id, claim.job.claim_version) for claim in found.world.claims.values())
    for name, actor in found.actors.items():
        if name.startswith(("turn", "claim", "http_claim")) and actor.answer is not None:
            claims.update((claim.job.id, claim.job.claim_version) for claim in actor.answer.claims or ())
    wrong = [f"{_name(found, key[0])} was handed out {n} times as {key[1]}" for key, n in claims.items() if n > 1]
    for job_id, version in claims:
        job = found.jobs[job_id]
        if job["chunk"] is None and job["claim_version"] < version:
            wrong.append(f"{_name(found, job_id)} was handed out as {version}, which its row knows nothing of")
    return wrong


def _is_held(found: Found, claim: Claim) -> bool:
    """Whether this claim, the first of its job, still owns it."""
    job = found.jobs[claim.job.id]
    if job["chunk"] is not None:
        return bool(job["state"] == State.SCHEDULED)
    return bool(job["claim_version"] == 1 and job["state"] == State.RUNNING)


def answers(found: Found) -> list[str]:
    wrong = []
    for by, actor in found.actors.items():
        name = by.rstrip("'")
        for of, state in _settled(found.world, name, actor):
            held = _is_held(found, found.world.claims[of])
            if state is None and held:
                wrong.append(f"{name} was told that its claim of {of} is stale, and it holds")
            if isinstance(state, State) and held:
                wrong.append(f"{name} was accepted for {of}, which still runs")
        if name == "heartbeat":
            for of, beat in zip(BEATING, actor.answer or (), strict=False):
                if not beat.alive and _is_held(found, found.world.claims[of]):
                    wrong.append(f"a heartbeat was told that {of} is lost, and it is not")
        if name == "http_heartbeat":
            for of, renewed in zip(BEATING, actor.answer or (), strict=False):
                if renewed is None and _is_held(found, found.world.claims[of]):
                    wrong.append(f"a heartbeat by token was told that {of} is lost, and it is not")
        if name.startswith("cancel") and actor.answer is not None:
            job = found.jobs[found.world.ids["waits" if name == "cancel_waiting" else "ran"]]
            if job["state"] not in TERMINAL and job["cancel_version"] != job["claim_version"]:
                wrong.append(f"{name} was accepted, and the job goes on")
        if actor.error is not None and name != "update_waiting" and _is_held(found, found.world.claims["ran"]):
            wrong.append(f"{name} was refused ({actor.error}), and its claim holds")
        is_updated = found.jobs[found.world.ids["next"]]["priority"] == 0
        if name == "update_waiting" and actor.answer is not None and not is_updated:
            wrong.append("an update was lost")
    return wrong


def _settled(world: Receipted, name: str, actor: Actor) -> list[tuple[str, Any]]:
    if name not in SETTLED or actor.answer is None:
        return []
    if name == "turn":
        settled = actor.answer.settled
        done = {n for n in SETTLED[name] if settled is None or (world.claims[n].job.id, 1) in settled}
        return [(n, State.COMPLETED) for n in done]  # What it left goes the full path.
    if name == "http_complete":
        return [(n, State.COMPLETED) for n in SETTLED[name] if world.claims[n].job.id in actor.answer]
    if name == "http_finish":
        told = [settle.LOCKED if reply is LOCKED else reply.state for reply in actor.answer]
        return list(zip(SETTLED[name], told, strict=True))
    return list(zip(SETTLED[name], actor.answer, strict=True))


def told_once(found: Found) -> list[str]:
    """An event for each end, in the commit of that end, and none for anything else."""
    ends = [found.jobs[found.world.ids[name]] for name in TOLD]
    wanted = sorted((job["id"], f"job.{job['state']}") for job in ends if job["state"] in TERMINAL)
    got = sorted(found.events)
    return [] if got == wanted else [f"events {[(_name(found, job_id), kind) for job_id, kind in got]} of {wanted}"]


def dependents(found: Found) -> list[str]:
    wrong = []
    ended = {name: found.jobs[found.world.ids[name]]["state"] in TERMINAL for name in ("ran", "waits")}
    for job in found.jobs.values():
        if job["type"] == "after" and job["state"] == State.PENDING:
            if job["pending_dependencies"] != 2 - sum(ended.values()):
                wrong.append(f"a dependent waits for {job['pending_dependencies']} of {ended}")
            if any(not found.jobs[found.world.ids[n]]["has_dependents"] for n, over in ended.items() if not over):
                wrong.append("a dependent waits for a job whose end nobody would tell it")
    return wrong


def nobody_waits_for_each_other(found: Found) -> list[str]:
    return [f"{name}: {error}" for name, actor in found.actors.items() for error in actor.conflicts]
