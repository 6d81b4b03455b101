"""One job: what it is, why it is where it is, what became of each attempt, and what can be done about it."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple
from urllib.parse import quote

import msgspec

from euterpe.dashboard.layout import JOBS, PageFrame, act, csrf, empty, grid, heading, notice, panel
from euterpe.dashboard.pages.attempts import attempts_panel
from euterpe.dashboard.pages.outputs import LocalOutputs
from euterpe.dashboard.parts import html as h
from euterpe.dashboard.parts.formatting import duration, moment, short_id, shown_url, state_mark
from euterpe.dashboard.parts.graph import graph
from euterpe.dashboard.parts.html import Child, Html, joined
from euterpe.dashboard.parts.masking import masked_text
from euterpe.dashboard.parts.tree import json_tree
from euterpe.dashboard.sign_in import Visitor
from euterpe.model.claims.attempt_log import AttemptLog
from euterpe.model.errors import JobNotFound
from euterpe.model.job import AttemptRow, JobRow
from euterpe.model.priority import PRIORITY_NAMES
from euterpe.model.reading.document import tags_of
from euterpe.model.reading.overview import GraphNode, Neighbours
from euterpe.model.reading.why import Explanation
from euterpe.model.state import TERMINAL, State
from euterpe.ports import DashboardReads, Store
from euterpe.server.http.asgi import Request
from euterpe.server.routes.submissions import job_id_of

SAID: Final = {
    "cancelled": "The job is cancelled.",
    "cancel-requested": "The worker has been asked to stop; the job ends when it answers.",
    "retried": "The job is scheduled again.",
    "replayed": "This is a new job with the same request.",
    "redelivered": "The event will be sent once more.",
}


class JobPageQuery(msgspec.Struct, frozen=True):
    """`said` names what has just been done."""

    said: str | None = None


class Seen(NamedTuple):
    """All that the page shows, read side by side."""

    job: JobRow
    attempts: list[AttemptRow]
    logs: list[AttemptLog]
    why: Explanation
    around: Neighbours
    now: int
    outputs: Html | None


class JobPageView:
    """Made of a few looks by id."""

    def __init__(self, store: Store, reads: DashboardReads, local: LocalOutputs) -> None:
        self._store = store
        self._reads = reads
        self._local = local

    async def make(self, visitor: Visitor, said: JobPageQuery, request: Request) -> PageFrame:
        job_id = job_id_of(request.parameters["job_id"])
        if job_id is None:
            raise JobNotFound(request.parameters["job_id"][:100])
        job = await self._store.get(job_id, visitor.sees)
        attempts, logs, why, around, now = await asyncio.gather(
            self._store.attempts(job_id, visitor.sees),
            self._store.attempt_logs(job_id, visitor.sees),
            self._store.why(job_id, visitor.sees),
            self._reads.neighbours(job_id, visitor.sees),
            self._store.now_us(),
        )
        seen = Seen(job, attempts, logs, why, around, now, await self._local.panel_of(job))
        return PageFrame(f"{job.type} {short_id(job.id)}", _body(visitor, said, seen), JOBS)


def _body(visitor: Visitor, said: JobPageQuery, seen: Seen) -> Html:
    job = seen.job
    return joined(
        heading(h.span(job.type, class_="name"), state_mark(job.state), h.code(job.id)),
        notice(said.said, SAID),
        h.p(seen.why.sentence, class_=f"why s-{job.state}"),
        _progress(job),
        _acts(visitor, job),
        h.div(
            h.div(
                attempts_panel(job, seen.attempts, seen.logs, seen.now),
                seen.outputs,
                h.div(
                    panel("Payload", _value(job.payload, job.payload_format)),
                    panel("Result", json_tree(job.result, _no_result(job))),
                    class_="pair",
                ),
                _dependencies(job, seen.around),
                _events(job, seen.around, seen.now),
            ),
            h.div(
                _lease(job, seen.now), _facts(job, seen.around.replayed_as, seen.now), _children(seen.around.children)
            ),
            class_="columns",
        ),
    )


def _progress(job: JobRow) -> Html | None:
    if job.progress is None or job.state is not State.RUNNING:
        return None
    told = f"{job.progress:.0f} %" + (f", {job.progress_message}" if job.progress_message else "")
    return h.p(h.progress(value=f"{job.progress:.1f}", max=100, aria_label="Progress"), " ", told, class_="progress")


def _acts(visitor: Visitor, job: JobRow) -> Html | None:
    if not visitor.is_admin:
        return None
    here = f"{JOBS}/{job.id}"
    acts: list[Child] = []
    if job.state not in TERMINAL:
        acts.append(act(visitor, f"{here}/cancel", "Cancel"))
    if job.state is State.RUNNING:
        said = "Takes the job from its worker at once. What the handler does meanwhile is not undone."
        force = act(
            visitor, f"{here}/cancel", "Force cancel", h.input_(type="hidden", name="force", value="yes"), danger=True
        )
        acts.append(h.details(h.summary("Force cancel…"), h.p(said), force, id="force"))
    if job.state in TERMINAL:
        acts.append(act(visitor, f"{here}/retry", _retry_label(job)))
    if job.payload_format == "json":
        acts.append(_edited_replay(visitor, job, here))
    return h.div(acts, class_="acts")


def _retry_label(job: JobRow) -> str:
    same = job.state is State.FAILED and job.attempt_count < job.max_attempts
    return "Retry" if same else "Replay as a new job"


def _edited_replay(visitor: Visitor, job: JobRow, here: str) -> Html | None:
    text = masked_text(job.payload)
    if text is None:
        return None
    return h.details(
        h.summary("Replay with another payload…"),
        h.form(
            csrf(visitor),
            h.label("The payload of the new job. Values that are hidden stay as they are.", for_="payload"),
            h.textarea(text, id="payload", name="payload", rows=10, spellcheck="false"),
            h.button("Submit as a new job", type="submit"),
            method="post",
            action=f"{here}/replay",
        ),
        class_="edit",
        id="edit",
    )


def _value(stored: bytes, form: str) -> Html:
    return json_tree(stored, "") if form == "json" else empty(f"{len(stored):,} bytes.")


def _no_result(job: JobRow) -> str:
    return "It completed without a result." if job.state is State.COMPLETED else "No result: it has not completed."


def _lease(job: JobRow, now: int) -> Html | None:
    if job.state is not State.RUNNING:
        return None
    over = (job.lease_expires_at or 0) < now
    facts: list[tuple[str, Child]] = [
        ("Worker", h.code(job.worker_id or "unknown")),
        ("Last heartbeat", moment(job.heartbeat_at, now)),
        ("Lease ends", moment(job.lease_expires_at, now)),
        ("Claim version", job.claim_version),
        ("Stage", job.current_stage),
        ("Condition", h.span("⚠ lease over: the next sweep takes it back", class_="flag warn") if over else "✓ held"),
    ]
    return panel("Lease", _list(facts))


def _list(facts: list[tuple[str, Child]]) -> Html:
    return h.dl([h.joined(h.dt(name), h.dd(value)) for name, value in facts if value not in (None, "")], class_="facts")


def _facts(job: JobRow, replayed_as: str | None, now: int) -> Html:
    tags = [h.span(f"{name}: {value}", class_="tag") for name, value in tags_of(job).items()]
    limit = None if job.concurrency_key is None else f"{job.concurrency_key} (at most {job.concurrency_limit} at once)"
    facts: list[tuple[str, Child]] = [
        ("Queue", job.queue),
        ("Priority", PRIORITY_NAMES[job.priority]),
        ("Requester", job.requester_id),
        ("Attempts", f"{job.attempt_count} of {job.max_attempts}"),
        ("Created", moment(job.created_at, now)),
        ("Due", moment(job.run_at, now) if job.state in (State.DELAYED, State.RETRYING) else None),
        ("Started", moment(job.started_at, now)),
        ("Ended", moment(job.completed_at, now)),
        ("Lifetime ends", None if job.state in TERMINAL else moment(job.expires_at, now)),
        ("Timeout of a run", duration(job.execution_timeout_us)),
        ("Correlation id", job.correlation_id),
        ("Idempotency key", job.idempotency_key),
        ("Concurrency key", limit),
        ("Tags", h.span(tags, class_="tags") if tags else None),
        ("Spawned by", _job_link(job.parent_id)),
        ("Replay of", _job_link(job.replay_of)),
        ("Runs again as", _job_link(replayed_as)),
        ("Webhook", h.code(shown_url(job.callback_url)) if job.callback_url else None),
    ]
    return panel("Facts", _list(facts))


def _job_link(job_id: str | None) -> Html | None:
    return None if job_id is None else h.a(h.code(short_id(job_id)), href=f"{JOBS}/{quote(job_id)}", title=job_id)


def _node_row(node: GraphNode, relation: str) -> Html:
    if node.state is None:
        return h.tr(h.td(relation), h.td("pruned", class_="soft"), h.td(h.code(short_id(node.job_id))))
    link = h.a(node.type, href=f"{JOBS}/{node.job_id}", class_="row-link")
    return h.tr(h.td(relation), h.td(state_mark(node.state)), h.td(link, " ", h.code(short_id(node.job_id))))


def _dependencies(job: JobRow, around: Neighbours) -> Html | None:
    if not around.edges:
        return None
    direct = [(other, "waits for") for this, other in around.edges if this == job.id]
    direct += [(this, "is waited for by") for this, other in around.edges if other == job.id]
    further = sorted(around.nodes.keys() - {other for other, _ in direct} - {job.id})
    rows = [_node_row(around.nodes[other], relation) for other, relation in direct]
    rows += [_node_row(around.nodes[other], "further away") for other in further]
    return panel(
        "Dependencies",
        graph(around.nodes, around.edges, job.id, f"{JOBS}/"),
        grid(["This job", "State", "Job"], rows, "Dependencies as a list"),
        empty("There are more jobs around these; open one to see what is around it.") if around.cut else None,
    )


def _children(children: list[GraphNode]) -> Html | None:
    if not children:
        return None
    rows = [_node_row(child, "spawned") for child in children]
    return panel("Spawned", grid(["This job", "State", "Job"], rows, "Jobs that this one spawned"))


def _events(job: JobRow, around: Neighbours, now: int) -> Html | None:
    if job.callback_url is None and not around.events:
        return None
    if not around.events:
        return panel("Webhooks", empty("It asks for webhooks, and none has been due yet."))
    rows = [
        h.tr(
            h.td(h.a(event.type, href=f"/dashboard/webhooks/{event.id}", class_="row-link")),
            h.td(event.state.replace("_", " ")),
            h.td(event.attempt_count, class_="num"),
            h.td(moment(event.created_at, now), class_="num"),
            h.td(event.error, class_="name"),
        )
        for event in around.events
    ]
    return panel("Webhooks", grid(["Event", "State", "Tries", "Created", "Error"], rows, "Webhook events"))
