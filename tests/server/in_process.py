"""A hub within the process of the tests, which reach its parts, its ASGI application, and its HTTP interface."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import unquote

import httpx2
from uvicorn import Config
from uvicorn.server import ServerState

from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.server.http.http1 import http1
from penstock.storage import open_store


class Here(NamedTuple):
    """A hub, its application, and a client of that."""

    hub: Hub
    app: HubApp
    http: httpx2.AsyncClient

    async def post_lines(self, name: str, body: bytes, headers: dict[str, str] | None = None) -> httpx2.Response:
        """Publish *body* to the feed *name*."""
        return await self.http.post(f"/feeds/{name}", content=body, headers=headers)


def open_hub(url: str) -> Hub:
    """Open a hub on the database at *url*, which has its tables then."""
    hub = Hub(open_store(url))
    hub.store.migrate()
    return hub


@asynccontextmanager
async def serve(hub: Hub, **options: Any) -> AsyncIterator[Here]:
    """Serve *hub* on this event loop. A defect of the hub is answered with status 500."""
    app = HubApp(lambda: hub, **options)
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    async with app.lifespan(), httpx2.AsyncClient(transport=transport, base_url="http://hub", timeout=300) as http:
        yield Here(hub, app, http)


class RawConnection:
    """A connection to the hub's own server, whose requests have the headers that are given and no others."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> httpx2.Response:
        """Send a request, and return its answer."""
        lines = [f"POST {path} HTTP/1.1", "Host: hub", *(f"{name}: {value}" for name, value in headers.items())]
        self._writer.write("\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        status, *rest = head.splitlines()
        found = [(name, value) for name, _, value in (line.partition(": ") for line in rest if line)]
        length = int(dict(found)["content-length"])
        return httpx2.Response(int(status.split()[1]), headers=found, content=await self._reader.readexactly(length))


@asynccontextmanager
async def connect(app: HubApp) -> AsyncIterator[RawConnection]:
    """Connect to *app*, which the server of `penstock serve` serves on this event loop."""
    make: Any = http1(30.0, 30.0, app.limiter, app.take)
    config, state = Config(app, interface="asgi3", proxy_headers=False, log_config=None), ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: make(config, state, {}), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            yield RawConnection(reader, writer)
        finally:
            for connection in list(state.connections):
                connection.transport.abort()
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


def make_scope(method: str, path: str, query: str = "", headers: Sequence[tuple[bytes, bytes]] = ()) -> dict[str, Any]:
    """Return the scope of a request as a server hands it on: `path` decoded, `raw_path` as it came."""
    scope: dict[str, Any] = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http"}
    scope |= {"client": ("127.0.0.1", 1), "server": ("hub", 80), "root_path": ""}
    scope |= {"method": method, "path": unquote(path), "raw_path": path.encode(), "query_string": query.encode()}
    return scope | {"headers": [*headers]}
