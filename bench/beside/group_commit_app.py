"""The least that an event hub over HTTP can be: events are lines, stored as they come, many requests in one commit."""

import asyncio
import queue
import sqlite3
import sys
import threading
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import uvicorn

from penstock.storage.sqlite.connection import connect

_INSERT: Final = "INSERT INTO event (data) VALUES (?)"
Message = dict[str, Any]


class Committer:
    """Stores all that waits in one transaction, on disk before any of it is acknowledged."""

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: queue.SimpleQueue[tuple[list[bytes], asyncio.Future[None]]] = queue.SimpleQueue()
        self._connection = connect(path)  # With the hub's own settings.
        self._connection.execute("CREATE TABLE IF NOT EXISTS event (place INTEGER PRIMARY KEY, data TEXT NOT NULL)")
        threading.Thread(target=self._run, daemon=True).start()

    async def store(self, lines: list[bytes]) -> None:
        stored: asyncio.Future[None] = self._loop.create_future()
        self._waiting.put((lines, stored))
        await stored

    def _run(self) -> None:
        while True:
            group = [self._waiting.get()]
            while not self._waiting.empty():
                group.append(self._waiting.get())
            try:
                self._insert([(line.decode(),) for lines, _ in group for line in lines])
            except sqlite3.Error as error:
                self._loop.call_soon_threadsafe(_end, group, error)
            else:
                self._loop.call_soon_threadsafe(_end, group, None)

    def _insert(self, rows: list[tuple[str]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(_INSERT, rows)
        self._connection.execute("COMMIT")


def _end(group: list[tuple[list[bytes], asyncio.Future[None]]], error: Exception | None) -> None:
    for _, stored in group:
        if error is None:
            stored.set_result(None)
        else:
            stored.set_exception(error)


class App:
    """Takes any request as one that publishes the lines of its body."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._committer: Committer | None = None

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        assert scope["type"] == "http"
        if self._committer is None:
            self._committer = Committer(self._path, asyncio.get_running_loop())
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        await self._committer.store(body.splitlines())
        await send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


if __name__ == "__main__":
    port, path = sys.argv[1:]
    uvicorn.run(
        App(Path(path)),
        port=int(port),
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_keep_alive=600,
    )
