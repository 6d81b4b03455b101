"""Use a queue in a FastAPI application. It is opened and closed with the application, and routes receive it.

app = FastAPI(lifespan=lifespan(queue, work=True))

@app.post("/reports/{report_id}")
async def order(report_id: int, jobs: JobQueue) -> dict[str, str]:
    job = await jobs.submit("report.render", {"report_id": report_id})
    return {"job": job.id}
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Annotated, Any, Unpack

from fastapi import Depends, FastAPI, Request

from euterpe.model.errors import EuterpeError
from euterpe.queue.queue import Queue
from euterpe.queue.worker import WorkerOptions

__all__ = ["JobQueue", "get_queue", "lifespan"]

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Any]]


def lifespan(
    queue: Queue,
    *,
    work: bool = False,
    concurrency: int = 100,
    inner: Lifespan | None = None,
    **options: Unpack[WorkerOptions],
) -> Lifespan:
    """Open the queue when the application starts, and close it when it ends.

    `work`: also run jobs in this process, `concurrency` at once, with the `options` of `queue.worker`. When the
    application ends, running jobs have the worker's `grace` to finish. `inner`: your own lifespan, which runs while the
    queue is open.

    Example:
        app = FastAPI(lifespan=lifespan(queue, work=True, concurrency=20))
    """

    @asynccontextmanager
    async def opened(app: FastAPI) -> AsyncIterator[Any]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(queue)
            app.state.euterpe_queue = queue
            state = await stack.enter_async_context(inner(app)) if inner is not None else None
            if work:
                await stack.enter_async_context(queue.worker(concurrency, **options))
            yield state

    return opened


def get_queue(request: Request) -> Queue:
    """Return the queue of the application. Tests can override it with `app.dependency_overrides`.

    Example:
        jobs: Annotated[Queue, Depends(get_queue)]
    """
    queue = request.app.state._state.get("euterpe_queue")  # noqa: SLF001  # `state` has no question without an error
    if not isinstance(queue, Queue):
        raise EuterpeError("this application has no queue: FastAPI(lifespan=euterpe.fastapi.lifespan(queue))")
    return queue


JobQueue = Annotated[Queue, Depends(get_queue)]
"""A parameter of a route: `async def order(jobs: JobQueue)`."""
