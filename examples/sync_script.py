"""Submitting from code without an event loop; a worker runs beside it. `.venv/bin/python examples/sync_script.py`"""

import asyncio
import tempfile
import threading

import euterpe

queue = euterpe.Queue(f"sqlite:///{tempfile.mkdtemp()}/jobs.db")


@queue.job("shout")
def shout(_ctx: euterpe.Context, text: str) -> str:  # a plain `def` runs in a thread
    return text.upper()


def run_worker(url: str, stop: threading.Event) -> None:
    """In real life this is another process: `euterpe worker myapp:queue`."""

    async def work() -> None:
        worker = euterpe.Queue(url)
        worker.job("shout")(shout.function)
        task = asyncio.create_task(worker.work())
        await asyncio.to_thread(stop.wait)
        task.cancel()

    asyncio.run(work())


def main() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=run_worker, args=(queue.url, stop))
    thread.start()
    with queue.sync as jobs:
        job = jobs.submit("shout", {"text": "good news"})
        print(jobs.result(job, timeout="30s"))
        print("attempts:", len(jobs.attempts(job.id)))
    stop.set()
    thread.join()


if __name__ == "__main__":
    main()
