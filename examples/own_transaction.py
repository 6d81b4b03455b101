"""The handler's own write and the end of its job in one commit. `.venv/bin/python examples/own_transaction.py`"""

import asyncio
import sqlite3
import tempfile

import euterpe

FILE = f"{tempfile.mkdtemp()}/shop.db"
queue = euterpe.Queue(f"sqlite:///{FILE}")


@queue.job("order.pay", max_attempts=3, backoff={"strategy": "constant", "initial": "10ms"})
def pay(ctx: euterpe.Context, order: int) -> None:
    shop = sqlite3.connect(FILE, timeout=30)
    try:
        with shop:  # commits, or rolls back if an error leaves the block
            shop.execute("INSERT INTO payments (order_id) VALUES (?)", [order])
            ctx.complete(shop, {"paid": order})
            if order % 3 == 0 and ctx.attempt == 1:
                raise euterpe.TemporaryError("the lights went out between the write and the commit")
    finally:
        shop.close()


async def main() -> None:
    with sqlite3.connect(FILE) as shop:
        shop.execute("CREATE TABLE payments (order_id INTEGER NOT NULL)")
    async with queue, queue.worker(concurrency=4):
        jobs = [await pay.submit(order=number) for number in range(1, 13)]
        for job in jobs:
            await job.result(timeout="30s")
        attempts = [await queue.attempts(job.id) for job in jobs]
        done = [job for job in jobs if (await queue.get(job.id)).state is euterpe.State.COMPLETED]
    with sqlite3.connect(FILE) as shop:
        (paid,) = shop.execute("SELECT count(*) FROM payments").fetchone()
    failed = sum(len(tries) - 1 for tries in attempts)
    print(f"{paid} orders paid once, {len(done)} jobs completed, {failed} attempts failed on the way")


if __name__ == "__main__":
    asyncio.run(main())
