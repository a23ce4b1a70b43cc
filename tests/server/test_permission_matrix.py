"""Every route is called as everybody, on both databases, and lets through whom its declared permission allows."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from penstock.core.access import Caller, Claim, Sender
from penstock.core.groups.groups import PositionCommit
from penstock.core.subscriptions.definition import complete_subscription
from penstock.server import HubApp
from penstock.server.authentication.tokens import TokenMethod
from penstock.server.openapi.operation import HttpOperation
from penstock.server.routes import ROUTES
from penstock.testing.factories import an_event_type
from tests.exhaustive import is_exhaustive
from tests.server.in_process import make_scope, open_hub

pytestmark = pytest.mark.anyio
NAME = "order.placed"
GROUP = "g"
NOBODY = "nobody"
CALLERS = ("stranger", "reader", "writer", "admin", "root")
EVERYBODY = {NOBODY, *CALLERS}
AUTHENTICATED = {*CALLERS}
ALLOWED: dict[tuple[str, str | None], set[str]] = {
    ("event_type", "view"): {"reader", "writer", "admin", "root"},
    ("event_type", "read"): {"reader", "root"},
    ("event_type", "write"): {"writer", "root"},
    ("event_type", "own"): {"writer", "admin", "root"},
    ("event_type", "admin"): {"admin", "root"},
    ("subscription", "view"): {"reader", "admin", "root"},
    ("subscription", "read"): {"reader", "root"},
    ("subscription", "admin"): {"admin", "root"},
    ("hub", "view"): AUTHENTICATED,
    ("hub", "create"): AUTHENTICATED,
    ("hub", "monitor"): {"root"},
    ("hub", "administer"): {"root"},
    ("event_type", "administer"): {"root"},
    ("group", "view"): {"reader", "writer", "admin", "root"},
    ("group", "read"): AUTHENTICATED,  # The body names event types: see test_access.py.
    ("group", "own"): {"reader", "admin", "root"},
    ("hub", None): EVERYBODY,
}
"""By what the path names and by the permission that the route declares: whom it lets through.

The producer group belongs to the writer, the consumer group to the reader.
"""
IN_PATH = {"event_type": NAME, "partition": "0", "version": "latest", "type": "CONSUMER_ET", "name": "x", "id": "x"}
IN_PATH |= {
    "member": "m",
    "group": GROUP,
    "first": "0",
    "parked": "1",
    "stream": "038fc871-1d2c-4e2e-aa29-1579e8f2e71f",
}
BODIES = {"PATCH /groups/{group}/positions": b'{"items": [{"event_type": "order.placed", "to": "earliest"}]}'}
BODIES["POST /groups/{group}/parked/{parked}/skip"] = b'{"reason": "a test order"}'
IN_PATH |= {"upload": "038fc871-1d2c-4e2e-aa29-1579e8f2e71f", "chunk": "0", "batch": "0", "path": "groups"}


def a_list(name: str) -> list[dict[str, str]]:
    return [{"data_type": "service", "value": name}]


class Scene:
    """A hub with one event type and one subscription whose lists name one caller each."""

    def __init__(self, url: str) -> None:
        self.hub = open_hub(url)
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
        commits = [PositionCommit(NAME, 0, 0)]
        self.hub.groups.commit(GROUP, "processor", commits, Claim(Caller("service", "reader")))
        self.hub.producers.owners.check(NAME, GROUP, Claim(Caller("service", "writer")))
        permissions.refresh()

    async def call(
        self, caller: str, method: str, path: str, *, query: str = "", body: bytes = b"", whole: bool = True
    ) -> tuple[int, bytes]:
        """Return the status of the answer and its body; unless it is wanted *whole*, what comes with the status."""
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        if caller != NOBODY:
            headers.append((b"authorization", f"Bearer {self.tokens[caller]}".encode()))
        bodies = [{"type": "http.request", "body": body, "more_body": False}]
        said: list[Any] = []
        began = asyncio.Event()

        async def receive() -> Any:
            if not bodies:
                await asyncio.Event().wait()
            return bodies.pop()

        async def send(message: Any) -> None:
            said.append(message)
            began.set()

        called: Callable[..., Awaitable[None]] = self.app
        answer = asyncio.ensure_future(called(make_scope(method, path, query, headers), receive, send))
        beginning = asyncio.ensure_future(began.wait())
        awaited = {answer} if whole else {answer, beginning}
        await asyncio.wait(awaited, timeout=300, return_when=asyncio.FIRST_COMPLETED)
        for each in (answer, beginning):
            each.cancel()
        await asyncio.wait({answer, beginning})
        return said[0]["status"], b"".join(each.get("body", b"") for each in said[1:])


@pytest.fixture(params=["sqlite_url", "migrated_postgres_url"])
async def scene(request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    found = Scene(request.getfixturevalue(request.param))
    found.restore()
    async with found.app.lifespan():
        yield found


def find_resource(operation: HttpOperation) -> str:
    return next((each for each in ("event_type", "subscription", "group") if f"{{{each}}}" in operation.path), "hub")


async def test_every_route_lets_through_whom_its_permission_allows(scene: Scene) -> None:
    found, wanted = {}, {}
    for operation in (*ROUTES, *(each.without_query for each in ROUTES if each.without_query)):
        name = f"{operation.method} {operation.path} {operation.needs}"
        found[name] = set()
        for caller in (NOBODY, *CALLERS):
            path = operation.path.format_map(IN_PATH | {"subscription": scene.subscription})
            query = "n=1" if operation.without_query else ""
            body = BODIES.get(f"{operation.method} {operation.path}", b"{}")
            status, _ = await scene.call(caller, operation.method, path, query=query, body=body, whole=False)
            assert (status == 401) <= (caller == NOBODY), (name, caller, status)
            if status not in (401, 403):
                found[name].add(caller)
                scene.restore()
        wanted[name] = ALLOWED[find_resource(operation), operation.needs]

    assert found == wanted


SPELLINGS = (
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
)


async def test_no_spelling_of_a_path_gets_around_the_permission(scene: Scene) -> None:
    for path, method, caller in itertools.product(SPELLINGS, ("GET", "POST", "DELETE"), (NOBODY, "stranger")):
        status, body = await scene.call(caller, method, path)
        assert 400 <= status < 500, (method, path, caller, status, body)
        assert b"admins" not in body or b"hint" in body, path
        assert "authorization" not in json.loads(body), path


ENDINGS = ("%00", "%20", "%0A", "%C2%A0", "%FF", ".", "%2F..")


async def test_no_spelling_of_a_name_gets_around_its_permission(scene: Scene) -> None:
    """Each route gets each of the spellings in `make test-all`, and one of them in turn else."""
    kept = [f"/event-types/{NAME}", f"/subscriptions/{scene.subscription}", f"/groups/{GROUP}"]
    before = [await scene.call("root", "GET", path) for path in kept]
    names = {"event_type": NAME, "subscription": scene.subscription, "group": GROUP}
    for number, operation in enumerate(ROUTES):
        kind = find_resource(operation)
        if kind in names and not (kind == "group" and operation.needs == "read"):  # Groups belong to their first user.
            body = BODIES.get(f"{operation.method} {operation.path}", b"{}")
            endings = ENDINGS if is_exhaustive() else (ENDINGS[number % len(ENDINGS)],)
            for name in (spelling for ending in endings for spelling in (names[kind] + ending, ending + names[kind])):
                path = operation.path.format_map(IN_PATH | {kind: name})
                status, answer = await scene.call("stranger", operation.method, path, body=body, whole=False)
                assert 400 <= status < 500, (operation.method, path, status, answer)

    assert [await scene.call("root", "GET", path) for path in kept] == before


async def test_requests_that_are_refused_together_share_queries(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    refreshed, refresh = [], scene.hub.admin.permissions.refresh
    monkeypatch.setattr(scene.hub.admin.permissions, "refresh", lambda: refreshed.append(refresh()))
    answers = await asyncio.gather(*(scene.call("stranger", "GET", f"/event-types/{NAME}") for _ in range(50)))

    assert [status for status, _ in answers] == [403] * 50
    assert 0 < len(refreshed) < 25
