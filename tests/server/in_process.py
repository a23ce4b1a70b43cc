"""A hub within the process of the tests, which reach its parts, its ASGI application, and its HTTP interface."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import unquote

import httpx2

from penstock.hub.hub import Hub
from penstock.server import HubApp
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


def make_scope(method: str, path: str, query: str = "", headers: Sequence[tuple[bytes, bytes]] = ()) -> dict[str, Any]:
    """Return the scope of a request as a server hands it on: `path` decoded, `raw_path` as it came."""
    scope: dict[str, Any] = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http"}
    scope |= {"client": ("127.0.0.1", 1), "server": ("hub", 80), "root_path": ""}
    scope |= {"method": method, "path": unquote(path), "raw_path": path.encode(), "query_string": query.encode()}
    return scope | {"headers": [*headers]}
