"""The hub as an ASGI application: the routing table, and how it starts and stops."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from penstock.errors import PenstockError
from penstock.hub.hub import Hub
from penstock.server import event_types, feeds, operations, parameters
from penstock.server.operation import Answer, Operation
from penstock.server.problems import on_defect, on_http_error, on_penstock_error
from penstock.server.state import State
from penstock.wire import arrow
from penstock.wire.zeroeventhub import NDJSON

JSON = "application/json"
TEXT = "text/plain"
DONE, PAGE = Answer("Done."), Answer("A page.", (NDJSON, arrow.MEDIA_TYPE))


def _json(says: str) -> dict[int, Answer]:
    return {200: Answer(says, (JSON,))}


OPERATIONS: Sequence[Operation] = (
    Operation("GET", "/event-types", event_types.list_event_types, "List event types", answers=_json("All of them.")),
    Operation("POST", "/event-types", event_types.create_event_type, "Create an event type", body=JSON, answers={201: DONE}),
    Operation("GET", "/event-types/{event_type}", event_types.show_event_type, "Show an event type", answers=_json("It.")),
    Operation("DELETE", "/event-types/{event_type}", event_types.delete_event_type, "Drop an event type", answers={200: DONE}),
    Operation("GET", "/event-types/{event_type}/partitions", event_types.list_partitions, "Show where each partition begins and ends", answers=_json("All of them.")),
    Operation("GET", "/feeds/{event_type}", feeds.read_feed, "Discover a feed, or read it (ZeroEventHub v1)", parameters.V1, answers={200: Answer("Discovery, or a page.", (JSON, NDJSON, arrow.MEDIA_TYPE))}),
    Operation("POST", "/feeds/{event_type}", feeds.publish, "Publish lines", parameters.PUBLISH, body=NDJSON, answers=_json("How many, and the cursors after them.")),
    Operation("GET", "/feeds/{event_type}/events", feeds.read_partition, "Read a partition (FeedAPI v2)", parameters.V2, answers={200: PAGE}),
    Operation("GET", "/health", operations.health, "Tell that the process answers", answers={200: Answer("OK", (TEXT,))}),
    Operation("GET", "/health/live", operations.live, "Tell that the process answers", answers=_json("It does.")),
    Operation("GET", "/health/ready", operations.ready, "Tell whether the database can be used", answers=_json("It can.")),
    Operation("GET", "/version", operations.version, "Tell the version", answers=_json("It.")),
    Operation("GET", "/metrics", operations.metrics, "Give Prometheus its numbers", answers={200: Answer("Metrics.", (TEXT,))}),
    Operation("GET", "/openapi.json", operations.openapi, "Describe this interface", answers=_json("OpenAPI 3.1.")),
    Operation("GET", "/docs", operations.docs, "Describe this interface for people", answers={200: Answer("A page.", ("text/html",))}),
)  # fmt: skip


class HubApp:
    """The hub over HTTP: serve it by itself, or mount it in your own application.

        hub = HubApp("sqlite:///shop.db")
        app = FastAPI(lifespan=hub.lifespan)
        app.mount("/events", hub)

    Starlette and FastAPI do not run the lifespan of what is mounted: without the line that hands it on, the hub starts
    on its first request and ends with the process, losing nothing.

    Args:
        database: the URL of the database, see `penstock.storage.open_store`; or a function that opens a `Hub`.
        migrate: bring the tables up to date when starting.
    """

    def __init__(self, database: str | Callable[[], Hub], *, migrate: bool = True) -> None:
        opens = database if callable(database) else lambda: _open(database, migrate)
        self._state = State(opens)
        self._app = Starlette(
            routes=[Route(each.path, each.handler, methods=[each.method]) for each in OPERATIONS],
            exception_handlers={
                PenstockError: on_penstock_error,
                HTTPException: on_http_error,
                Exception: on_defect,
            },
            lifespan=self.lifespan,
        )
        self._app.state.penstock = self._state
        self._app.state.operations = OPERATIONS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection (ASGI)."""
        await self._app(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, _: Any = None) -> AsyncIterator[None]:
        """Start the hub when the application starts and stop it when it ends."""
        await self._state.start()
        try:
            yield
        finally:
            await self._state.stop()

    @property
    def hub(self) -> Hub:
        """The hub, once it has started."""
        return self._state.hub

    def drain(self) -> None:
        """End all waits: each answers with what it has."""
        self._state.drain()


def _open(database: str, migrate: bool) -> Hub:
    from penstock.storage import open_store

    store = open_store(database)
    if migrate:
        store.migrate()
    hub = Hub(store)
    hub.start()
    return hub
