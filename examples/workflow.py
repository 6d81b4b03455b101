"""A workflow: three downloads in parallel, one of them flaky, then a summary that gets what they returned.

`.venv/bin/python examples/workflow.py`
"""

import asyncio
import tempfile

import euterpe

queue = euterpe.Queue(f"sqlite:///{tempfile.mkdtemp()}/jobs.db")


@queue.job("download", max_attempts=5, backoff={"strategy": "exponential", "initial": "100ms"})
async def download(ctx: euterpe.Context, day: str) -> int:
    if day == "tue" and ctx.attempt < 3:
        raise euterpe.TemporaryError("the archive of Tuesday is busy", retry_after="200ms")
    return len(day) * 100


@queue.job("summary")
async def summary(week: int, sizes: list[int]) -> str:
    return f"week {week} is complete: {sum(sizes)} bytes"


async def main() -> None:
    async with queue, queue.worker():
        async with queue.workflow() as flow:  # stored whole when the block ends, or not at all
            days = [flow.add(download, day=day) for day in ("mon", "tue", "wed")]
            last = flow.add(summary, week=46, sizes=days)  # waits for them; their results stand in their place
        print(await last.result(timeout="30s"))
        for node in days:
            attempts = await queue.attempts(node.id)
            print(node.type, await node.result(), "after", len(attempts), "attempts")


if __name__ == "__main__":
    asyncio.run(main())
