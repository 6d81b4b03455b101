"""CPU-bound work in a process of its own: it does not slow the others down, and a timeout really kills it.

`.venv/bin/python examples/cpu_process.py`
"""

import asyncio
import tempfile

import euterpe

queue = euterpe.Queue(f"sqlite:///{tempfile.mkdtemp()}/jobs.db")


@queue.job("primes", process=True, timeout="1m")
def primes(ctx: euterpe.Context, below: int) -> int:
    sieve = bytearray([1]) * below
    sieve[:2] = b"\0\0"
    for n in range(2, int(below**0.5) + 1):
        if sieve[n]:
            sieve[n * n :: n] = bytes(len(range(n * n, below, n)))
    ctx.progress(100, "counted")
    return sum(sieve)


@queue.job("stuck", process=True, timeout="1s", max_attempts=1)
def stuck(_ctx: euterpe.Context) -> None:
    while True:
        pass


async def main() -> None:
    async with queue, queue.worker(concurrency=4):
        count, hopeless = await primes.submit(below=2_000_000), await stuck.submit()
        print("primes below two million:", await count.result(timeout="60s"))
        try:
            await hopeless.result(timeout="60s")
        except euterpe.JobFailed as failed:
            print(failed)


if __name__ == "__main__":
    asyncio.run(main())
