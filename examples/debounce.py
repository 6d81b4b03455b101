"""Many changes, one index run: a debounced job by key. `.venv/bin/python examples/debounce.py`"""

import asyncio
import tempfile

import euterpe

queue = euterpe.Queue(f"sqlite:///{tempfile.mkdtemp()}/jobs.db")


@queue.job("search.index", unique="debounce", delay="300ms")
async def index(document: int, revision: int) -> str:
    return f"document {document} indexed at revision {revision}"


async def main() -> None:
    async with queue, queue.worker():
        for revision in range(1, 21):
            job = await index.options(unique_key="document 7").submit(document=7, revision=revision)
        print(await job.result(timeout="30s"))
        stored = (await queue.stats()).by_type["search.index"]
    print(f"20 submissions, {sum(stored.values())} job")


if __name__ == "__main__":
    asyncio.run(main())
