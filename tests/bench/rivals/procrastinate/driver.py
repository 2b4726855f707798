import asyncio
import contextlib
import importlib.metadata
import json
import logging
import os
import sys
import time

import aiohttp
import procrastinate
import uvloop

# Below errors there is a line or two per job.
logging.disable(logging.WARNING)

PAYLOAD = json.loads(os.environ.get("BENCH_PAYLOAD", "{}"))

POLL_SECONDS = 0.02


def emit(event, **fields):
    print(json.dumps({"event": event, **fields}, separators=(",", ":")), flush=True)


async def stdin(read):
    return await asyncio.get_running_loop().run_in_executor(None, read)


async def go():
    await stdin(sys.stdin.readline)


def application(connections):
    connector = procrastinate.PsycopgConnector(
        conninfo=os.environ["DATABASE_URL"], min_size=connections, max_size=connections
    )
    return procrastinate.App(connector=connector)


def jobs(start, stop):
    return [{**PAYLOAD, "n": n} for n in range(start, stop)]


@contextlib.asynccontextmanager
async def workers(app, concurrency, **options):
    """Runs workers in this process; a cancelled worker first writes what it has in hand."""
    # Several, because a worker fetches one job per round trip.
    count = min(8, concurrency)
    options |= {"fetch_job_polling_interval": POLL_SECONDS, "delete_jobs": "successful"}
    options |= {"install_signal_handlers": False}
    running = [
        asyncio.create_task(app.run_worker_async(concurrency=(concurrency + i) // count, **options))
        for i in range(count)
    ]
    try:
        yield
    finally:
        for worker in running:
            worker.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def prepare():
    async with application(1).open_async() as app:
        await app.schema_manager.apply_schema_async()
    emit("prepared", version=importlib.metadata.version("procrastinate"))


async def enqueue(count):
    lanes, batch = 2, 1000
    app = application(lanes)
    pay = app.configure_task("pay")
    async with app.open_async():
        emit("ready")
        await go()
        starts = iter(range(0, int(count), batch))

        async def lane():
            for start in starts:
                await pay.batch_defer_async(*jobs(start, min(start + batch, int(count))))

        await asyncio.gather(*(lane() for _ in range(lanes)))
    emit("done")


async def work(count):
    app = application(20)
    left = int(count)
    handled = asyncio.Event()

    @app.task(name="pay")
    async def pay(**payload):
        nonlocal left
        if type(payload["n"]) is not int:
            raise ValueError("n is not an integer")
        left -= 1
        if left == 0:
            handled.set()

    async with app.open_async():
        emit("ready")
        await go()
        # Notifications come one per job here and only cost time while there is a backlog.
        async with workers(app, 80, listen_notify=False):
            await handled.wait()
        emit("done")


async def call(url, concurrency):
    app = application(20)
    limit = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
    async with aiohttp.ClientSession(connector=limit, timeout=aiohttp.ClientTimeout(total=None)) as session:

        @app.task(name="pay")
        async def pay(**payload):
            async with session.post(url, json=payload, raise_for_status=True) as reply:
                await reply.read()

        async with app.open_async():
            async with workers(app, int(concurrency)):
                emit("ready")
                await stdin(sys.stdin.read)


async def produce(rate, seconds):
    app = application(1)
    pay = app.configure_task("pay")
    async with app.open_async():
        emit("ready")
        await go()
        began = time.monotonic()
        start = 0
        for tick in range(1, int(float(seconds) * 100) + 1):
            await asyncio.sleep(max(0, began + tick / 100 - time.monotonic()))
            stop = int(tick * float(rate) / 100)
            if stop > start:
                await pay.batch_defer_async(*jobs(start, stop))
                emit("committed", **{"from": start}, count=stop - start, at=time.time_ns() // 1000)
                start = stop
    emit("done")


COMMANDS = {command.__name__: command for command in (prepare, enqueue, work, call, produce)}
uvloop.run(COMMANDS[sys.argv[1]](*sys.argv[2:]))
