"""What must hold when both programs are through, in whatever order they ran. Each rule returns what it found wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import asyncpg

from euterpe.model.claims.exchange import HeartbeatReply
from euterpe.model.dependency import Dependency, end_of_dependent
from euterpe.model.state import INITIAL, MOVES, TERMINAL, State
from euterpe.model.submitting.batch import SubmitResult
from tests.interleavings.driver import Actor
from tests.interleavings.scenario import World
from tests.line.at_rest import ConnectionTables, faults_at_rest


@dataclass
class Seen:
    """All tables that the rules look at, and what the programs were answered."""

    world: World
    actors: dict[str, Actor]
    """By the name of their program; a second one of the same program has an apostrophe."""
    jobs: dict[str, Any]
    edges: list[Any]
    moves: list[Any]
    events: list[Any]
    kept_events: list[Any]
    keys: list[Any]
    tombstones: dict[str, State]
    at_rest: list[str]
    """What the line, the keys and the rows disagree about."""


async def look(connection: asyncpg.Connection[Any], world: World, actors: dict[str, Actor]) -> Seen:
    jobs = await connection.fetch("SELECT *, id::text AS id, parent_id::text AS parent_id FROM inbox_jobs")
    tombstones = await connection.fetch("SELECT job_id::text, state FROM euterpe_tombstones")
    events = "SELECT id::text, job_id::text, type, state FROM {}job_outbox_events"
    return Seen(
        world,
        actors,
        {job["id"]: job for job in jobs},
        await connection.fetch("SELECT job_id::text, depends_on::text FROM job_dependencies"),
        await connection.fetch("SELECT *, job_id::text AS job_id FROM audit ORDER BY n"),
        await connection.fetch(events.format("")),
        await connection.fetch(events.format("kept_")),
        await connection.fetch("SELECT key, job_id::text, response FROM idempotency_keys"),
        {row[0]: State(row[1]) for row in tombstones},
        await faults_at_rest(ConnectionTables(connection)),
    )


def faults(seen: Seen) -> list[str]:
    rules = (moves, one_end, dependents, events, limits, keys, answers, heartbeats, updates, line)
    return [f"{rule.__name__}: {fault}" for rule in rules for fault in rule(seen)]


def line(seen: Seen) -> list[str]:
    return seen.at_rest


def moves(seen: Seen) -> list[str]:
    found = []
    for m in seen.moves:
        if m["old_state"] is None:
            if State(m["new_state"]) not in INITIAL | TERMINAL:
                found.append(f"a job began {m['new_state']}")
            continue
        move = (State(m["old_state"]), State(m["new_state"]))
        if move not in MOVES:
            found.append(f"{move[0]} -> {move[1]} is in no table")
        if m["new_version"] < m["old_version"]:
            found.append(f"a version went back from {m['old_version']} to {m['new_version']}")
    return found


def one_end(seen: Seen) -> list[str]:
    """A claim is ended once, and a job that ended stays ended, but for a failed one that an operator wakes."""
    ends = Counter((m["job_id"], m["old_version"]) for m in seen.moves if _is_end_of_claim(m))
    return [f"a claim was ended {count} times" for count in ends.values() if count > 1]


def _is_end_of_claim(move: Any) -> bool:
    return bool(move["old_state"] == State.RUNNING and move["new_version"] >= move["old_version"])


def dependents(seen: Seen) -> list[str]:
    found = []
    needs: dict[str, set[str]] = {}
    for job_id, depends_on in seen.edges:
        needs.setdefault(job_id, set()).add(depends_on)
    for job_id, wanted in needs.items():
        if job_id in seen.jobs:
            found += _dependent(seen, seen.jobs[job_id], {d: _state(seen, d) for d in wanted})
    return found


def _dependent(seen: Seen, job: Any, needs: dict[str, State]) -> list[str]:
    state, kind = State(job["state"]), Dependency(job["dependency"])
    still_open = {d for d, s in needs.items() if s not in TERMINAL}
    ended = [s for s in needs.values() if s in TERMINAL]
    may_go = bool(ended) if kind is Dependency.AFTER_ANY else not still_open
    name = job["type"]
    if state in TERMINAL:
        return []
    if state is not State.PENDING:
        bad = end_of_dependent(kind, ended)
        return [f"{name} went too early, or beside a bad end"] if not may_go or bad is not None else []
    found = []
    if may_go or end_of_dependent(kind, ended) is not None:
        found.append(f"{name} is stranded: {sorted(needs.values())}")
    if kind is not Dependency.AFTER_ANY and job["pending_dependencies"] != len(still_open):
        found.append(f"{name} waits for {job['pending_dependencies']} of {len(still_open)}")
    if any(not seen.jobs[d]["has_dependents"] for d in still_open):
        found.append(f"{name} waits for a job whose end nobody would tell it")
    if kind is Dependency.FAN_IN:
        children = {c for c, child in seen.jobs.items() if child["parent_id"] in needs}
        found += [f"{name} misses a child"] if children - needs.keys() else []
    return found


def _state(seen: Seen, job_id: str) -> State:
    return State(seen.jobs[job_id]["state"]) if job_id in seen.jobs else seen.tombstones[job_id]


def events(seen: Seen) -> list[str]:
    """One for each end and each retry that was committed, of a job with a callback, and none for any other."""
    told = Counter((e["job_id"], e["type"]) for e in seen.events)
    told.subtract(Counter((e["job_id"], e["type"]) for e in seen.kept_events))
    moved = Counter((m["job_id"], f"job.{m['new_state']}") for m in seen.moves)
    found = []
    for job_id, job in seen.jobs.items():
        for state in (*TERMINAL, State.RETRYING):
            name = (job_id, f"job.{state}")
            expected = moved[name] if job["callback_url"] is not None else 0
            if told[name] != expected and job["type"] != "old":
                found.append(
                    f"{job['type']} was told {told[name]} times that it is {state}, and was so {expected} times"
                )
    return found


def limits(seen: Seen) -> list[str]:
    running = Counter(
        (j["requester_id"], j["concurrency_key"], j["concurrency_limit"])
        for j in seen.jobs.values()
        if j["concurrency_key"] is not None and j["state"] == State.RUNNING
    )
    return [f"{count} run under a limit of {limit}" for (_, _, limit), count in running.items() if count > limit]


def keys(seen: Seen) -> list[str]:
    found = [f"the key {row['key']} has no answer" for row in seen.keys if row["response"] is None]
    holders = Counter(j["idempotency_key"] for j in seen.jobs.values() if j["idempotency_key"] is not None)
    holders["old"] -= seen.world.ids["old"] in seen.jobs
    found += [f"{count} jobs for the key {key}" for key, count in holders.items() if count > 1]
    taken = {row["key"]: row["job_id"] for row in seen.keys}
    for job_id, job in seen.jobs.items():
        if job["idempotency_key"] is not None and job["type"] != "old" and taken.get(job["idempotency_key"]) != job_id:
            found.append("a job has lost its key")
        if job["type"] == "old" and job_id != seen.world.ids["old"] and taken.get("old") != job_id:
            found.append("a job has lost the key that it renewed")
    return found


def answers(seen: Seen) -> list[str]:
    """What was acknowledged is there."""
    found = []
    for name, actor in seen.actors.items():
        if actor.answer is None:
            continue
        if name.startswith(("submit", "spawn")):
            submit_results = [
                r for unit in actor.answer if isinstance(unit, list) for r in unit if isinstance(r, SubmitResult)
            ]
            gone = [r for r in submit_results if r.job_id not in seen.jobs and r.job_id not in seen.tombstones]
            found += [f"the job of an answer to {name} is gone" for _ in gone]
        elif name.startswith("redeliver"):
            here = {e["id"]: e["state"] for e in seen.events}
            found += [] if here.get(seen.world.event_id) == State.SCHEDULED else ["a redelivered event is gone"]
    ended = {(m["job_id"], m["old_version"]) for m in seen.moves if _is_end_of_claim(m)}
    for name, names in SETTLED.items():
        for by in (name, f"{name}'"):
            states = seen.actors[by].answer if by in seen.actors else None
            for claim, state in zip(seen.world.claim(*names), states or (), strict=False):
                key = (claim.job.id, claim.job.claim_version)
                if isinstance(state, State) and key not in ended:
                    found.append(f"{name} was accepted and nothing ended")
                if state is None and key not in ended:
                    found.append(f"{name} was called stale, and its claim still holds")
    return found


SETTLED = {
    "complete": ("parent", "plain", "keyed", "spawner"),
    "complete_late": ("lost", "ageing"),
    "fail": ("parent", "lost", "spawner"),
    "fail_for_now": ("parent", "lost", "keyed"),
    "release": ("parent", "keyed"),
}


def heartbeats(seen: Seen) -> list[str]:
    """A lease that was renewed is not taken away for having run out."""
    actor, sweep = seen.actors.get("heartbeat"), seen.actors.get("reclaim")
    beats: list[HeartbeatReply] = (actor.answer or []) if actor and sweep else []
    ended = {(m["job_id"], m["old_version"]) for m in seen.moves if _is_end_of_claim(m)}
    return [
        "a lease was renewed and reclaimed"
        for beat in beats
        if beat.alive and beat.renewed and (beat.lease.job_id, beat.lease.claim_version) in ended
    ]


UPDATED = {"update_waiting": "told", "update_retrying": "retrying", "update_running": "parent"}


def updates(seen: Seen) -> list[str]:
    """What an update was told to be so is so, whatever else happened; of a refused one nothing is."""
    found = []
    for name, target in UPDATED.items():
        actors = [seen.actors[by] for by in (name, f"{name}'") if by in seen.actors]
        if not actors:
            continue
        job = seen.jobs[seen.world.ids[target]]
        is_updated = (job["correlation_id"], job["tags"]) == ("updated", '{"updated":"yes"}')
        accepted = any(actor.answer is not None for actor in actors)
        if is_updated != accepted:
            found.append(f"{name} was {'accepted' if accepted else 'refused'}, and the job says otherwise")
        urgent = name != "update_running" and job["priority"] == 0
        if accepted and urgent != (name != "update_running"):
            found.append(f"{name} lost its priority")
        if accepted and not job["callback_url"].endswith("/updated"):
            found.append(f"{name} lost its callback")
    return found
