"""Each of our HTTP clients asking for a list, and a server that answers with an empty one."""

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

import anyio
import pytest

from penstock.client import AsyncClient, Client
from penstock.spark.http import send_request, shared_client


def by_client(url: str) -> Any:
    with Client(url, retry_timeout=0) as client:
        return client.event_types()


def by_async_client(url: str) -> Any:
    async def asking() -> Any:
        async with AsyncClient(url, retry_timeout=0) as client:
            return await client.event_types()

    return anyio.run(asking)


def by_spark(url: str) -> Any:
    shared_client.cache_clear()  # As in a process that has asked nobody yet.
    return send_request(f"{url}/event-types")


EVERY = pytest.mark.parametrize("ask", [by_client, by_async_client, by_spark])
Ask = Callable[[str], Any]


class Answers(BaseHTTPRequestHandler):
    """Answers as a hub, and as a proxy to any, and notes what it was asked for."""

    asked: list[str]
    length = 2

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(self.length))
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, *_: object) -> None:
        """Keep quiet."""
