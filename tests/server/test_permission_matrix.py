"""Every route is called as everybody, and lets through those whom the permission that it declares allows."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.core.access import Caller, Sender
from penstock.core.subscriptions.definition import complete_subscription
from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.server.authentication.tokens import TokenMethod
from penstock.server.openapi.operation import HttpOperation
from penstock.server.routes import ROUTES
from penstock.storage import open_store
from penstock.testing.factories import an_event_type

NAME = "order.placed"
NOBODY = "nobody"
CALLERS = ("stranger", "reader", "writer", "admin", "root")
EVERYBODY = {NOBODY, *CALLERS}
AUTHENTICATED = {*CALLERS}
ALLOWED: dict[tuple[str, str | None], set[str]] = {
    ("event_type", "view"): {"reader", "writer", "admin", "root"},
    ("event_type", "read"): {"reader", "root"},
    ("event_type", "write"): {"writer", "root"},
    ("event_type", "admin"): {"admin", "root"},
    ("subscription", "view"): {"reader", "admin", "root"},
    ("subscription", "read"): {"reader", "root"},
    ("subscription", "admin"): {"admin", "root"},
    ("hub", "view"): AUTHENTICATED,
    ("hub", "create"): AUTHENTICATED,
    ("hub", "monitor"): {"root"},
    ("hub", "administer"): {"root"},
    ("event_type", "administer"): {"root"},
    # Groups belong to their owner: see test_ownership.py.
    ("group", "view"): AUTHENTICATED,
    ("group", "read"): AUTHENTICATED,
    ("group", "admin"): AUTHENTICATED,
    ("hub", None): EVERYBODY,
}
"""By what the path names and by the permission that the route declares: whom it lets through."""
IN_PATH = {"event_type": NAME, "partition": "0", "version": "latest", "type": "CONSUMER_ET", "name": "x", "id": "x"}
IN_PATH |= {"group": "g", "first": "0", "parked": "1", "stream": "038fc871-1d2c-4e2e-aa29-1579e8f2e71f"}
IN_PATH |= {"upload": "038fc871-1d2c-4e2e-aa29-1579e8f2e71f", "chunk": "0", "batch": "0"}


def a_list(name: str) -> list[dict[str, str]]:
    return [{"data_type": "service", "value": name}]


class Scene:
    """A hub with one event type and one subscription whose lists name one caller each."""

    def __init__(self, url: str) -> None:
        store = open_store(url)
        store.migrate()
        self.hub = Hub(store)
        self.tokens = {name: self.hub.admin.tokens.create(Caller("service", name)).secret for name in CALLERS}
        self.app = HubApp(lambda: self.hub, authentication=[TokenMethod()], administrators=["service:root"])
        self.subscription = ""

    def restore(self) -> None:
        """Create again what a route has deleted."""
        permissions, lists = self.hub.admin.permissions, {"admins": a_list("admin"), "readers": a_list("reader")}
        if NAME not in [feed.name for feed in self.hub.registry.list()]:
            writers = {"writers": a_list("writer")}
            definition = an_event_type(NAME, authorization=lists | writers)
            self.hub.registry.create(definition, Sender(Caller("service", "admin"), ""))
        given = {"owning_application": "shop", "event_types": [NAME], "authorization": lists}
        self.subscription = self.hub.subscriptions.create(complete_subscription(given))[0].id
        permissions.refresh()

    async def find_status(self, operation: HttpOperation, caller: str) -> int:
        """Return the status of a call without waiting for the rest of the answer."""
        path = operation.path.format_map(IN_PATH | {"subscription": self.subscription})
        headers = [(b"content-length", b"2"), (b"content-type", b"application/json")]
        if caller != NOBODY:
            headers.append((b"authorization", f"Bearer {self.tokens[caller]}".encode()))
        scope = {
            "type": "http",
            "method": operation.method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"n=1" if operation.without_query else b"",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("hub", 80),
            "scheme": "http",
            "root_path": "",
            "http_version": "1.1",
        }
        status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        bodies = [{"type": "http.request", "body": b"{}", "more_body": False}]

        async def receive() -> Any:
            if not bodies:
                await asyncio.Event().wait()
            return bodies.pop()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start" and not status.done():
                status.set_result(message["status"])

        call: Callable[..., Awaitable[None]] = self.app
        task = asyncio.ensure_future(call(scope, receive, send))
        await asyncio.wait({task, status}, timeout=300, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        return status.result()


def find_resource(operation: HttpOperation) -> str:
    return next((each for each in ("event_type", "subscription", "group") if f"{{{each}}}" in operation.path), "hub")


def test_every_route_lets_through_whom_its_permission_allows(migrated_url: str) -> None:
    scene = Scene(migrated_url)
    found, wanted = {}, {}

    async def main() -> None:
        async with scene.app.lifespan():
            for operation in (*ROUTES, *(each.without_query for each in ROUTES if each.without_query)):
                name = f"{operation.method} {operation.path} {operation.needs}"
                found[name] = set()
                for caller in (NOBODY, *CALLERS):
                    scene.restore()
                    status = await scene.find_status(operation, caller)
                    assert (status == 401) <= (caller == NOBODY), (name, caller, status)
                    if status not in (401, 403):
                        found[name].add(caller)
                wanted[name] = ALLOWED[find_resource(operation), operation.needs]

    asyncio.run(main())

    assert found == wanted


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize(
    "path",
    [
        f"/event-types/{NAME}/events/",
        f"/event-types//{NAME}",
        f"//event-types/{NAME}",
        "/event-types/order%2Eplaced",
        "/event-types/order%252Eplaced",
        "/health/../settings/admins",
        "/health/%2e%2e/settings/admins",
        "/health%2f..%2fsettings/admins",
        "/metrics/",
        "/Settings/Admins",
        "/settings/admins;x=/health",
        "/settings/admins%00",
        "/settings%2fadmins",
    ],
)
def test_no_spelling_of_a_path_gets_around_the_permission(scene: Scene, method: str, path: str) -> None:
    """As a server hands it on: `path` decoded, `raw_path` as it came."""
    from urllib.parse import unquote

    async def ask(caller: str) -> tuple[int, bytes]:
        said: list[Any] = []
        headers = [(b"authorization", f"Bearer {scene.tokens[caller]}".encode())] if caller != NOBODY else []
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("hub", 80),
            "scheme": "http",
            "root_path": "",
            "http_version": "1.1",
        }

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            said.append(message)

        await scene.app(scope, receive, send)  # type: ignore[arg-type]
        return said[0]["status"], b"".join(each.get("body", b"") for each in said[1:])

    async def main() -> list[tuple[int, bytes]]:
        async with scene.app.lifespan():
            return [await ask(caller) for caller in (NOBODY, "stranger")]

    for status, body in asyncio.run(main()):
        assert 400 <= status < 500, (status, body)
        assert b"admins" not in body or b"hint" in body
        assert "authorization" not in json.loads(body)


@pytest.fixture
def scene(sqlite_url: str) -> Scene:
    found = Scene(sqlite_url)
    found.restore()
    return found
