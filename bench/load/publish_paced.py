"""Publishes single events at a given rate, whether or not the last one was answered, and notes when each set out."""

import asyncio
import time
from typing import Any

import uvloop

from bench.events import line
from bench.load.http1 import post
from bench.load.program import Run, serve

CONNECTIONS = 16


def make(port: int, feed: str) -> Run:
    """Connect often enough that an event need not wait for the one before."""
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    idle: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def connect() -> None:
        for _ in range(CONNECTIONS):
            idle.put_nowait(await asyncio.open_connection("127.0.0.1", port))

    async def publish(request: bytes) -> None:
        reader, writer = await idle.get()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        await reader.readuntil(b"}}")
        idle.put_nowait((reader, writer))

    async def pace(first: int, count: int, per_second: float) -> dict[int, int]:
        sent, tasks = {}, []
        started = loop.time()
        for number in range(first, first + count):
            await asyncio.sleep(max(0.0, started + (number - first) / per_second - loop.time()))
            request = post(f"/feeds/{feed}", line(number).encode())
            sent[number] = time.monotonic_ns()
            tasks.append(asyncio.ensure_future(publish(request)))
        await asyncio.gather(*tasks)
        return sent

    def run(first: int, count: int, per_second: float) -> dict[str, Any]:
        """Publish *count* events, numbered from *first*; give by number when each set out, in nanoseconds."""
        return {"at": loop.run_until_complete(pace(first, count, per_second))}

    loop.run_until_complete(connect())
    return run


if __name__ == "__main__":
    serve(make)
