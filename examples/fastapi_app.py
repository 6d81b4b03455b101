"""A FastAPI app that stores an order and its job in one SQLAlchemy transaction: both, or neither.

Run as it is, it calls itself once and ends; in real life: `uvicorn examples.fastapi_app:app`.
`.venv/bin/python examples/fastapi_app.py`
"""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import euterpe

try:
    import httpx
    from fastapi import FastAPI, HTTPException
    from sqlalchemy import text
    from sqlalchemy.ext.asyncio import create_async_engine
except ModuleNotFoundError as missing:
    sys.exit(f"{missing}. This example needs: pip install fastapi httpx sqlalchemy aiosqlite   (./test installs them)")

FILE = f"{tempfile.mkdtemp()}/shop.db"
queue = euterpe.Queue(f"sqlite:///{FILE}")
engine = create_async_engine(f"sqlite+aiosqlite:///{FILE}")


@queue.job("order.confirm")
async def confirm(_ctx: euterpe.Context, order: str) -> str:
    return f"confirmed {order}"


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    async with queue:
        async with engine.begin() as connection:
            await connection.execute(text("CREATE TABLE IF NOT EXISTS orders (name TEXT PRIMARY KEY)"))
        worker = asyncio.create_task(queue.work())
        yield
        worker.cancel()
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{name}")
async def order(name: str) -> dict[str, str]:
    async with engine.begin() as connection:
        await connection.execute(text("INSERT INTO orders VALUES (:name)"), {"name": name})
        job = await confirm.options(connection=connection).submit(order=name)
        if name == "nothing":
            raise HTTPException(422, "an empty order")  # rolls back the row and the job
    return {"order": name, "job": job.id}


async def main() -> None:
    async with app.router.lifespan_context(app):
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://shop")
        placed = (await client.post("/orders/tea")).json()
        refused = await client.post("/orders/nothing")
        while (await queue.get(placed["job"])).state != "completed":  # noqa: ASYNC110  # as another process would
            await asyncio.sleep(0.05)
        jobs = (await queue.search()).jobs
        print("placed:", placed["order"], "| refused:", refused.status_code, "| jobs stored:", len(jobs))
        await client.aclose()


if __name__ == "__main__":
    asyncio.run(main())
