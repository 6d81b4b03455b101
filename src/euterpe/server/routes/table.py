"""Every route there is. The router serves this table and OpenAPI describes it; nothing else adds a route."""

from __future__ import annotations

from typing import Any, Final

from euterpe.model.accounts import Scope
from euterpe.server.http.router import AnyRoute, Handler, Input, ReplySpec, Route
from euterpe.server.routes.events import Feed
from euterpe.server.routes.jobs import JobRoutes
from euterpe.server.routes.outbox import OutboxRoutes
from euterpe.server.routes.spawn import SpawnRoutes
from euterpe.server.routes.system import SystemRoutes
from euterpe.server.routes.worker import WorkerRoutes
from euterpe.wire import examples as e
from euterpe.wire import jobs as wire_jobs
from euterpe.wire import worker as wire_worker
from euterpe.wire.attempt_logs import JobLogs

_NO_JOB: Final = {404: "No such job, or another requester's.", 410: "The job ended and its record was pruned."}
_NO_EVENT: Final = {404: "No such event, or another requester's."}
_SAME_KEY: Final = {409: "The idempotency key was used for another request."}
_STALE: Final = {409: "The lease is not, or no longer, this worker's: `ok` is false and nothing was written."}
_ENDED: Final = {409: "The job's state does not allow it."}
_WORKER: Final[dict[str, Any]] = {"scope": Scope.WORKER, "tag": "Worker protocol"}


def _get(
    path: str, handler: Handler[Input], takes: type[Input], summary: str, reply: ReplySpec, tag: str, **more: Any
) -> AnyRoute:
    scope = more.pop("scope", Scope.READ)
    return Route("GET", path, handler, takes, summary, {200: reply}, scope, tag, **more)


def _post(
    path: str, handler: Handler[Input], takes: type[Input], summary: str, reply: tuple[int, ReplySpec], **more: Any
) -> AnyRoute:
    scope, tag = more.pop("scope", Scope.SUBMIT), more.pop("tag", "Jobs")
    return Route("POST", path, handler, takes, summary, dict([reply]), scope, tag, **more)


def job_routes(jobs: JobRoutes) -> list[AnyRoute]:
    return [*_submitting(jobs), *_looking(jobs), *_steering(jobs)]


def _submitting(jobs: JobRoutes) -> list[AnyRoute]:
    accepted = ReplySpec(
        "Stored.", wire_jobs.Accepted, example=e.ACCEPTED, headers=("Location", "Idempotency-Replayed")
    )
    batch_accepted = ReplySpec(
        "All stored.", wire_jobs.BatchAccepted, example=e.BATCH_ACCEPTED, headers=("Idempotency-Replayed",)
    )
    return [
        _post(
            "/jobs",
            jobs.submit,
            wire_jobs.SubmissionBody,
            "Submit a job",
            (202, accepted),
            description="With an idempotency key (header or field) the same request gets the same answer, "
            "byte for byte.",
            example=e.SUBMISSION,
            request_headers=("Idempotency-Key", "traceparent"),
            problems=_SAME_KEY,
        ),
        _post(
            "/jobs/batch",
            jobs.submit_batch,
            wire_jobs.BatchBody,
            "Submit jobs together, or a whole graph",
            (202, batch_accepted),
            description="All are stored or none. A job may depend on another of the batch by `#` and its `ref`.",
            example=e.BATCH,
            request_headers=("Idempotency-Key", "traceparent"),
            problems=_SAME_KEY,
        ),
    ]


def _looking(jobs: JobRoutes) -> list[AnyRoute]:
    return [
        _get(
            "/jobs",
            jobs.search,
            wire_jobs.JobQuery,
            "Find jobs",
            ReplySpec("A page.", wire_jobs.JobPage, example=e.PAGE),
            "Jobs",
        ),
        _get(
            "/jobs/{job_id}",
            jobs.get,
            wire_jobs.RequesterScope,
            "One job",
            ReplySpec("The job.", wire_jobs.JobDocument, example=e.JOB),
            "Jobs",
            problems=_NO_JOB,
        ),
        _get(
            "/jobs/{job_id}/attempts",
            jobs.attempts,
            wire_jobs.RequesterScope,
            "Its executions",
            ReplySpec("First to last.", wire_jobs.Attempts, example=e.ATTEMPTS),
            "Jobs",
            problems=_NO_JOB,
        ),
        _get(
            "/jobs/{job_id}/logs",
            jobs.logs,
            wire_jobs.RequesterScope,
            "What its handler logged",
            ReplySpec("Of the attempts of which something is kept.", JobLogs, example=e.LOGS),
            "Jobs",
            description="Of each attempt the newest lines, 16 KB at most, written when the attempt ends.",
            problems=_NO_JOB,
        ),
        _get(
            "/jobs/{job_id}/why",
            jobs.why,
            wire_jobs.RequesterScope,
            "Why it waits, or what became of it",
            ReplySpec("A sentence for people, a reason for programs.", wire_jobs.WhyDocument, example=e.WHY),
            "Jobs",
            description="`ahead` is counted up to 1,001. `until` is when the reason ends by itself, if that is known.",
            problems=_NO_JOB,
        ),
        _get(
            "/stats",
            jobs.stats,
            wire_jobs.RequesterScope,
            "Counts, ages and rates",
            ReplySpec("Of one's own jobs.", wire_jobs.StatsDocument, example=e.STATS),
            "Jobs",
        ),
    ]


def _steering(jobs: JobRoutes) -> list[AnyRoute]:
    again = ReplySpec("The job, scheduled again, or the new job that replays it.", wire_jobs.JobDocument, example=e.JOB)
    return [
        _post(
            "/jobs/{job_id}/cancel",
            jobs.cancel,
            wire_jobs.CancelBody,
            "Cancel a job",
            (200, ReplySpec("Where it is now.", wire_jobs.CancelAnswer, example=e.CANCELLED)),
            description="A waiting job ends at once. A running one is asked to stop, or with `force` taken away.",
            example={"force": False},
            problems=_NO_JOB | _ENDED,
        ),
        _post(
            "/jobs/{job_id}/retry",
            jobs.retry,
            wire_jobs.RetryBody,
            "Run an ended job again",
            (202, again),
            description="A failed job with budget left goes on; any other ended job is replayed as a new one, "
            "and with a key only once.",
            example={},
            request_headers=("Idempotency-Key",),
            problems=_NO_JOB | _ENDED,
        ),
        _post(
            "/jobs/{job_id}/dead-letter",
            jobs.dead_letter,
            wire_jobs.DeadLetterBody,
            "Send a failed job to the dead letter",
            (200, ReplySpec("The job.", wire_jobs.JobDocument, example=e.JOB)),
            description="For a failure that nothing will mend: it is kept as long as dead letters are.",
            example={},
            problems=_NO_JOB | _ENDED,
        ),
        Route(
            "PATCH",
            "/jobs/{job_id}",
            jobs.update,
            wire_jobs.UpdateBody,
            "Change a job's priority, tags, correlation id or callback URL",
            {200: ReplySpec("The job.", wire_jobs.JobDocument, example=e.JOB)},
            Scope.SUBMIT,
            "Jobs",
            description="What is left out stays; null takes a value away. The priority changes only while the job "
            "waits; type and payload never do.",
            example={"priority": "high", "tags": {"team": "a"}},
            problems=_NO_JOB | _ENDED,
        ),
    ]


def event_routes(feed: Feed, outbox: OutboxRoutes) -> list[AnyRoute]:
    return [
        _get(
            "/events",
            feed.events,
            wire_jobs.NoInput,
            "State changes as they happen",
            ReplySpec("Server-sent events named `job.<state>`.", media_type="text/event-stream"),
            "Events",
            description="Of states passed within half a second only the last is sent.",
            request_headers=("Last-Event-ID",),
        ),
        _get(
            "/outbox",
            outbox.search,
            wire_jobs.OutboxQuery,
            "Webhook events",
            ReplySpec("A page.", wire_jobs.OutboxPage, example=e.OUTBOX),
            "Events",
        ),
        _get(
            "/outbox/{event_id}",
            outbox.get,
            wire_jobs.RequesterScope,
            "One webhook event and its deliveries",
            ReplySpec("The event.", wire_jobs.OutboxEventDetail, example=e.EVENT_DETAIL),
            "Events",
            problems=_NO_EVENT,
        ),
        _post(
            "/outbox/{event_id}/redeliver",
            outbox.redeliver,
            wire_jobs.NoInput,
            "Send a webhook event again",
            (202, ReplySpec("It will be sent: same id, same body.", wire_jobs.OutboxEventDocument, example=e.EVENT)),
            tag="Events",
            problems=_NO_EVENT,
        ),
    ]


def worker_routes(workers: WorkerRoutes, spawning: SpawnRoutes) -> list[AnyRoute]:
    return [*_claim_routes(workers), *_report_routes(workers), *_batch_routes(workers, spawning)]


def _claim_routes(workers: WorkerRoutes) -> list[AnyRoute]:
    return [
        _post(
            "/internal/worker/claim",
            workers.claim,
            wire_worker.ClaimBody,
            "Ask for work",
            (200, ReplySpec("A job, jobs, or nothing.", wire_worker.CLAIM_ANSWERS, example=e.CLAIMED)),
            description="Waits up to `max_wait_ms`. `streams` are queues, the preferred one first.",
            example=e.CLAIM,
            **_WORKER,
        ),
        _post(
            "/internal/worker/heartbeat",
            workers.heartbeat,
            wire_worker.HeartbeatBody,
            "Keep a lease",
            (200, ReplySpec("The lease lives on.", wire_worker.HeartbeatAnswer, example=e.HEARTBEAT_ANSWER)),
            description="Every third of the lease. May tell stage, progress and checkpoint.",
            example=e.HEARTBEAT,
            problems=_STALE,
            **_WORKER,
        ),
    ]


def _report_routes(workers: WorkerRoutes) -> list[AnyRoute]:
    return [
        _post(
            "/internal/worker/complete",
            workers.complete,
            wire_worker.CompleteBody,
            "The job is done",
            (200, ReplySpec("Written, now or before.", wire_worker.CompleteAnswer, example=e.COMPLETE_ANSWER)),
            description="Safe to repeat: the same report gets the first answer.",
            example=e.COMPLETE,
            problems=_STALE,
            **_WORKER,
        ),
        _post(
            "/internal/worker/fail",
            workers.fail,
            wire_worker.FailBody,
            "The attempt failed",
            (200, ReplySpec("Written, now or before.", wire_worker.FailAnswer, example=e.FAIL_ANSWER)),
            description="Safe to repeat. `retryable` false ends the job; `released` gives it back unharmed.",
            example=e.FAIL,
            problems=_STALE,
            **_WORKER,
        ),
    ]


def _batch_routes(workers: WorkerRoutes, spawning: SpawnRoutes) -> list[AnyRoute]:
    return [
        _post(
            "/internal/worker/spawn",
            spawning.spawn,
            wire_worker.SpawnBody,
            "Children of a running job",
            (200, ReplySpec("All stored, now or before.", wire_worker.SpawnAnswer, example=e.SPAWN_ANSWER)),
            description="All or none, for the parent's requester; fan-ins on it wait for them. "
            "Safe to repeat with a key.",
            example=e.SPAWN,
            problems=_STALE,
            **_WORKER,
        ),
        _post(
            "/internal/worker/turn",
            workers.exchange,
            wire_worker.ExchangeBody,
            "Many at once: reports, heartbeats and the next claim",
            (200, ReplySpec("An answer for each entry.", wire_worker.ExchangeAnswer, example=e.EXCHANGE_ANSWER)),
            description="Each entry is safe to repeat. One that is refused has `ok` false; the others are written.",
            example=e.EXCHANGE,
            **_WORKER,
        ),
    ]


def system_routes(system: SystemRoutes, *, with_metrics: bool) -> list[AnyRoute]:
    open_to_all: dict[str, Any] = {"takes": wire_jobs.NoInput, "tag": "Operations", "scope": None}
    ready = {
        200: ReplySpec("Ready.", wire_jobs.Readiness, example=e.READY),
        503: ReplySpec("Not ready; the body names what fails.", wire_jobs.Readiness, example=e.UNREADY),
    }
    alive = ReplySpec("Alive.", wire_jobs.Alive, example={"status": "ok"})
    document = ReplySpec("This document.", dict[str, Any])
    page = ReplySpec("A page for people.", media_type="text/html")
    routes: list[AnyRoute] = [
        _get("/healthz", system.alive, summary="Is it alive", reply=alive, **open_to_all),
        Route("GET", "/readyz", system.ready, summary="Can it work", replies=ready, **open_to_all),
        _get("/openapi.json", system.openapi_document, summary="OpenAPI 3.1", reply=document, **open_to_all),
        _get("/docs", system.docs_page, summary="The same for people", reply=page, **open_to_all),
    ]
    if with_metrics:
        text = ReplySpec("Prometheus text.", media_type="text/plain")
        routes.append(_get("/metrics", system.metrics, summary="Metrics", reply=text, **open_to_all))
    return routes
