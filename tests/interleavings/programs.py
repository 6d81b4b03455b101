"""Every program that writes, aimed at the jobs of the scenario."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from euterpe.model.claims.exchange import LEASE_TTL_US, ClaimRequest, ProgressUpdate, Report
from euterpe.model.claims.outcome import Failed, Outcome, Released, Success
from euterpe.model.claims.outcome import settle as decide
from euterpe.model.dependency import Dependency
from euterpe.model.failures.failure import Category, Failure
from euterpe.model.state import State
from euterpe.model.submitting.batch import Parent, Unit, drafts_of
from euterpe.model.submitting.changes import Changes
from euterpe.model.submitting.submission import DAY_US, Submission
from euterpe.stores.sql.exchange.plain import PlainCompletions, plain_completions
from euterpe.stores.sql.exchange.postgres import settle_and_claim
from euterpe.stores.sql.exchange.turn import turn
from euterpe.stores.sql.jobs import heartbeat, settle
from euterpe.stores.sql.maintenance import operator, sweep, walks
from euterpe.stores.sql.outbox import events
from euterpe.stores.sql.program import Program
from euterpe.stores.sql.submitting import late_dependencies, submit
from tests.interleavings.scenario import HOOK, World

Make = Callable[[World], Program[Any]]

SUCCESS: Final = Success(b"1")
BROKEN: Final = Failed(Failure(Category.PERMANENT, "broken"))
ONCE_MORE: Final = Failed(Failure(Category.TEMPORARY, "once more"))
UPDATED_TAGS: Final = {"updated": "yes"}
CLAIM: Final = ClaimRequest(worker_id="other", limit=5)


def _submit(may_hold: bool = True, parent: Parent | None = None, **said: Any) -> Program[Any]:
    unit = Unit(drafts_of([Submission(type="new", **said)]), parent=parent)
    return submit.submit([unit], may_hold=may_hold)


def _settle(world: World, names: Sequence[str], outcome: Outcome) -> Program[Any]:
    settlements = [decide(claim.job, outcome, Random(1)) for claim in world.claim(*names)]
    return settle.settle_or_confirm(settlements, "postgres")


def _advance(world: World) -> Program[Any]:
    return heartbeat.update_progress([ProgressUpdate(world.claims["parent"], stage="halfway", progress=50)], [1])


def _turn(world: World) -> Program[Any]:
    completions = plain_completions([Report(world.claims["plain"], SUCCESS)])
    assert completions is not None
    return turn(completions, CLAIM)


def _full_turn(world: World, *names: str) -> Program[Any]:
    return settle_and_claim([decide(claim.job, SUCCESS, Random(1)) for claim in world.claim(*names)], CLAIM)


def _spawn(world: World) -> Program[Any]:
    lease = world.claims["spawner"].lease
    return _submit(parent=Parent(lease.job_id, lease.claim_version))


def _update(world: World, name: str, **said: Any) -> Program[Any]:
    changes = Changes(tags=UPDATED_TAGS, correlation_id="updated", callback_url=f"{HOOK}/updated", **said)
    return operator.update(world.ids[name], None, changes)


def _cancel(world: World, name: str, *, force: bool = False) -> Program[Any]:
    return operator.cancel(world.ids[name], None, "postgres", force=force)


WALKS: Final = ("adopt", "walk_line", "walk_key_lines", "walk_keys")
TURNS: Final = ("turn", "releasing_turn", "keyed_turn")
APART: Final = (
    frozenset({"submit", "claim", *TURNS}),
    frozenset({"submit_with_key", "submit_with_old_key", "expire_keys", "prune"}),
    frozenset({"prune", "prune_events", "redeliver"}),
    frozenset({"promote", "claim", *TURNS, "end_lifetimes", *WALKS}),
    frozenset({"retry", "dead_letter", "claim", "end_lifetimes"}),
    frozenset({"update_waiting", "claim", *TURNS, "promote", "end_lifetimes", *WALKS}),
    frozenset({"update_retrying", "claim", *TURNS, "promote"}),
    frozenset(
        {
            "update_running",
            "heartbeat",
            "advance",
            "complete",
            "complete_joined",
            "fail",
            "fail_for_now",
            "release",
            "reclaim",
            "cancel_running",
            "cancel_by_force",
            "submit_after",
            "submit_joined",
            "watch_dependencies",
        }
    ),
)
"""Who has few others to meet, and whom."""
_FEW: Final = {"submit", "submit_with_key", "submit_with_old_key", "expire_keys", "prune", "prune_events", "redeliver",
               "promote", "retry", "dead_letter", "update_waiting", "update_retrying", "update_running"}  # fmt: skip


def may_meet(a: str, b: str) -> bool:
    """Whether both can touch the same rows."""
    return not ({a, b} & _FEW) or any(a in line and b in line for line in APART)


PROGRAMS: Final[dict[str, Make]] = {
    "submit": lambda _: submit.submit_simple([Unit(drafts_of([Submission(type="new")]))], "postgres"),
    "submit_with_key": lambda _: _submit(idempotency_key="new"),
    "submit_with_old_key": lambda _: submit.submit([Unit(drafts_of([Submission(type="old", idempotency_key="old")]))]),
    "submit_after": lambda w: _submit(depends_on=(w.ids["parent"], w.ids["lost"]), callback_url=HOOK),
    "submit_any": lambda w: _submit(depends_on=(w.ids["parent"], w.ids["ready"]), dependency=Dependency.AFTER_ANY),
    "submit_fan_in": lambda w: _submit(depends_on=(w.ids["spawner"],), dependency=Dependency.FAN_IN),
    "submit_joined": lambda w: _submit(may_hold=False, depends_on=(w.ids["parent"], w.ids["plain"])),
    "submit_joined_fan_in": lambda w: _submit(
        may_hold=False, depends_on=(w.ids["spawner"],), dependency=Dependency.FAN_IN
    ),
    "watch_dependencies": lambda _: late_dependencies.watch_dependencies(10),
    "spawn": _spawn,
    "claim": lambda _: turn(PlainCompletions(), CLAIM),
    "turn": _turn,
    "releasing_turn": lambda w: _full_turn(w, "plain", "spawner"),
    "keyed_turn": lambda w: _full_turn(w, "plain", "keyed"),
    "heartbeat": lambda w: heartbeat.heartbeat(
        [c.lease for c in w.claim("parent", "lost", "ageing", "keyed", "plain")], LEASE_TTL_US
    ),
    "advance": _advance,
    "complete": lambda w: _settle(w, ("parent", "plain", "keyed", "spawner"), SUCCESS),
    "complete_joined": lambda w: settle.complete_joined(decide(w.claims["parent"].job, SUCCESS, Random(1)), "postgres"),
    "complete_late": lambda w: _settle(w, ("lost", "ageing"), SUCCESS),
    "fail": lambda w: _settle(w, ("parent", "lost", "spawner"), BROKEN),
    "fail_for_now": lambda w: _settle(w, ("parent", "lost", "keyed"), ONCE_MORE),
    "release": lambda w: _settle(w, ("parent", "keyed"), Released()),
    "cancel_running": lambda w: _cancel(w, "parent"),
    "cancel_by_force": lambda w: _cancel(w, "parent", force=True),
    "cancel_waiting": lambda w: _cancel(w, "after"),
    "cancel_parked": lambda w: _cancel(w, "parked"),
    "retry": lambda w: operator.retry(w.ids["failed"], None),
    "dead_letter": lambda w: operator.dead_letter(w.ids["failed"], None),
    "update_waiting": lambda w: _update(w, "told", priority=0),
    "update_retrying": lambda w: _update(w, "retrying", priority=0),
    "update_running": lambda w: _update(w, "parent"),
    "promote": lambda _: sweep.promote(10),
    "reclaim": lambda _: sweep.reclaim(10, "postgres", Random(1)),
    "release_unbegun": lambda w: sweep.release_unbegun(
        "w",
        {(c.lease.job_id, c.lease.claim_version) for c in w.claim("lost", "ageing", "spawner")},
        "postgres",
        Random(1),
    ),
    "end_lifetimes": lambda _: sweep.end_lifetimes(10, "postgres"),
    "refresh_running": lambda _: sweep.refresh_running(10),
    "adopt": lambda _: walks.adopt(0, 100),
    "walk_line": lambda _: walks.walk_line(walks.LINE_BEGIN, 100, "postgres"),
    "walk_key_lines": lambda _: walks.walk_key_lines(walks.KEY_LINE_BEGIN, 100, "postgres"),
    "walk_keys": lambda _: walks.walk_keys("", 100, "postgres"),
    "prune": lambda _: sweep.prune(State.COMPLETED, DAY_US, 10),
    "expire_keys": lambda _: sweep.expire_keys(10),
    "prune_events": lambda _: sweep.prune_events(State.COMPLETED, DAY_US, 10),
    "redeliver": lambda w: events.redeliver(w.event_id, None),
}
