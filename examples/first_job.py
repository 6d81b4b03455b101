"""A first job: define, submit, run, read the result. `.venv/bin/python examples/first_job.py`"""

import asyncio
import tempfile

import euterpe

queue = euterpe.Queue(f"sqlite:///{tempfile.mkdtemp()}/jobs.db")


@queue.job("greet")
async def greet(_ctx: euterpe.Context, name: str) -> str:
    return f"hello {name}"


async def main() -> None:
    async with queue, queue.worker():
        job = await greet.submit(name="world")
        print(await job.result(timeout="30s"))


if __name__ == "__main__":
    asyncio.run(main())
