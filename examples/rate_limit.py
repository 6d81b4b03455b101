"""No more than 20 calls a second to somebody's API, over all workers. `.venv/bin/python examples/rate_limit.py`"""

import asyncio
import tempfile
import time

import euterpe

queue = euterpe.Queue(f"sqlite:///{tempfile.mkdtemp()}/jobs.db")
starts: list[float] = []


@queue.job("weather.ask", concurrency_key="weather")
async def ask(city: str) -> str:
    starts.append(time.monotonic())
    return f"{city}: sunny"


async def main() -> None:
    async with queue, queue.worker():
        await queue.rates.set("weather", "20/s", burst=5)
        jobs = [await ask.submit(city=f"city {number}") for number in range(15)]
        for job in jobs:
            await job.result(timeout="30s")
    slow_enough = starts[-1] - starts[0] >= (len(starts) - 5 - 1) / 20
    print(f"{len(starts)} calls, 5 at once and then 20 a second: {slow_enough}")


if __name__ == "__main__":
    asyncio.run(main())
