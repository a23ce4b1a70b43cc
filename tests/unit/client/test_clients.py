"""The sync and the async client: each method makes the same requests and returns the same values."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import httpx2
import msgspec
import pydantic
import pytest

from penstock.client import AsyncClient, AsyncFeed, AsyncIdempotentProducer, Client, Feed
from penstock.client.log.publishing import Published
from penstock.client.subscriptions.async_stream import AsyncSubscriptionStream
from penstock.client.subscriptions.stream import SubscriptionStream
from penstock.core.events.event import NewEvent
from penstock.errors import BadParameter, EventTypeExists, SubscriptionNotFound
from penstock.wire.groups import NewPosition, PositionReset
from tests.unit.client.batches import text
from tests.unit.client.handler import Handlers, json, lines
from tests.unit.client.kinds import ASYNC, Kind, close, first, opened, result
from tests.unit.client.test_subscription import SHOWN
from tests.unit.client.test_subscription_protocol import PARKED

pytestmark = pytest.mark.anyio

OFFSETS = [
    {
        "partition": "0",
        "oldest_available_offset": "001-0001-000000000000000000",
        "newest_available_offset": "001-0001-000000000000000004",
    }
]
COMPATIBLE = {
    "compatible": True,
    "compatibility_mode": "forward",
    "validated_against_version": "1.0.0",
    "version": "1.1.0",
    "producers": True,
    "consumers": True,
    "colour": "a member that this client does not know",
}
GROUP: Any = {"name": "g", "kind": "spark", "event_types": ["a"], "gap": 7, "lag_seconds": 0.5}
PAGE: Any = {"items": [], "_links": {}}
STATS = {"items": [{"event_type": "a", "partitions": [{"partition": "0", "state": "unassigned", "stream_id": ""}]}]}
CURSORS = {"items": [{"event_type": "a", "partition": "0", "offset": "001-0001--1"}]}
OF_A = SHOWN | {"event_types": ["a"]}


class Call(NamedTuple):
    """A method, its arguments, the hub's answers, the requests that they answer, and a part of the result's repr."""

    name: str
    given: tuple[Any, ...]
    options: dict[str, Any]
    answers: list[tuple[Any, int]]
    requests: list[str]
    shows: str


CALLS = [
    Call("create_event_type", ("a",), {"partition_count": 4}, [({}, 201)], ["POST /event-types"], "None"),
    Call("event_types", (), {}, [([{"name": "a"}], 200)], ["GET /event-types"], "[{'name': 'a'}]"),
    Call("event_type", ("a",), {}, [({"name": "a"}, 200)], ["GET /event-types/a"], "{'name': 'a'}"),
    Call("asyncapi", (["a", "b"],), {}, [({"asyncapi": "3.0.0"}, 200)],
         ["GET /asyncapi.json?event_type=a&event_type=b"], "{'asyncapi': '3.0.0'}"),
    Call("replace_event_type", ({"name": "a"},), {}, [({}, 200)], ["PUT /event-types/a"], "None"),
    Call("check_definition", ({"name": "a"},), {}, [({}, 204)], ["POST /event-types/a/definition-check"], "None"),
    Call("grow_partitions", ("a", 8), {}, [({}, 204)], ["PUT /event-types/a/partition-count"], "None"),
    Call("check_compatibility", ("a", {"type": "object"}), {}, [(COMPATIBLE, 200)],
         ["POST /event-types/a/schemas/latest/compatibility-check"], "version='1.1.0'"),
    Call("check_compatibility", ("a", "{}"), {"version": "1.0.0"}, [(COMPATIBLE, 200)],
         ["POST /event-types/a/schemas/1.0.0/compatibility-check"], "compatible=True"),
    Call("erase", ("a", "jane"), {}, [({"id": "e"}, 202)], ["POST /event-types/a/erasures"], "'id': 'e'"),
    Call("erasure", ("a", "e"), {}, [({"id": "e"}, 200)], ["GET /event-types/a/erasures/e"], "'id': 'e'"),
    Call("delete_event_type", ("a",), {}, [({}, 200)], ["DELETE /event-types/a"], "None"),
    Call("partitions", ("a",), {}, [(OFFSETS, 200)], ["GET /event-types/a/partitions"], "newest=4"),
    Call("consumer_groups", ("a",), {"kind": "spark"}, [(PAGE | {"items": [GROUP]}, 200)],
         ["GET /groups?event_type=a&kind=spark&limit=1000"], "gap=7"),
    Call("consumer_group", ("g",), {}, [(GROUP | {"positions": []}, 200)], ["GET /groups/g"], "positions=[]"),
    Call("commit_positions", ("g", [NewPosition("a", 0, 7)]), {"kind": "spark"}, [(PAGE, 200)],
         ["POST /groups/g/positions"], "[]"),
    Call("reset_positions", ("g", [PositionReset("a", to="latest")]), {"reason": "why", "dry_run": True},
         [(PAGE | {"dry_run": True}, 200)], ["PATCH /groups/g/positions"], "[]"),
    Call("group_history", ("g",), {"limit": 1}, [(PAGE, 200)], ["GET /groups/g/history?limit=1"], "[]"),
    Call("parked_streams", ("g",), {"requested": True}, [(PAGE, 200)],
         ["GET /groups/g/parked?limit=1000&requested=true"], "[]"),
    Call("retry_parked_stream", ("g", "7"), {}, [({}, 204)], ["POST /groups/g/parked/7/retry"], "1"),
    Call("retry_parked_stream", ("g",), {}, [({"retried": 3}, 200)], ["POST /groups/g/parked/retry"], "3"),
    Call("skip_parked_stream", ("g", "7", "why"), {}, [({}, 204)], ["POST /groups/g/parked/7/skip"], "None"),
    Call("forget_group", ("g",), {}, [({}, 204)], ["DELETE /groups/g"], "None"),
    Call("create_subscription", ("shop", ["a"]),
         {"consumer_group": "x", "start": "earliest", "annotations": {"a": "b"}},
         [(SHOWN, 201)], ["POST /subscriptions"], "True)"),
    Call("subscriptions", (), {"owning_application": "shop", "event_types": ["a"], "reader": "service:x"},
         [({"items": [SHOWN]}, 200)],
         ["GET /subscriptions?event_type=a&owning_application=shop&reader=service%3Ax&limit=1000&token=new"], "id='5'"),
    Call("subscription.show", (), {}, [(SHOWN, 200)], ["GET /subscriptions/5"], "id='5'"),
    Call("subscription.update", (), {"labels": {"a": "b"}}, [(SHOWN, 200), ({}, 204)],
         ["GET /subscriptions/5", "PUT /subscriptions/5"], "None"),
    Call("subscription.delete", (), {}, [({}, 204)], ["DELETE /subscriptions/5"], "None"),
    Call("subscription.stats", (), {}, [(STATS, 200)], ["GET /subscriptions/5/stats?show_time_lag=true"],
         "'unassigned'"),
    Call("subscription.stats", (), {"lag": False}, [(STATS, 200)],
         ["GET /subscriptions/5/stats?show_time_lag=false"], "=0"),
    Call("subscription.cursors", (), {}, [(CURSORS, 200)], ["GET /subscriptions/5/cursors"], "offset=0"),
    Call("subscription.reset", (), {"to": "latest", "reason": "why"},
         [(OF_A, 200), (OFFSETS, 200), (CURSORS, 200), ({}, 204)],
         ["GET /subscriptions/5", "GET /event-types/a/partitions", "GET /subscriptions/5/cursors",
          "PATCH /subscriptions/5/cursors"], "came_from=0, offset=5"),
    Call("subscription.parked", (), {}, [({"items": [PARKED]}, 200)], ["GET /subscriptions/5/parked"], "key='k'"),
    Call("subscription.parked_key", ("7",), {"limit": 3}, [(PARKED, 200)],
         ["GET /subscriptions/5/parked/7?limit=3"], "items=[]"),
    Call("subscription.retry_parked", (), {}, [({"retried": 3}, 200)], ["POST /subscriptions/5/parked/retry"],
         "3"),
    Call("subscription.retry_parked", ("7",), {}, [({}, 204)], ["POST /subscriptions/5/parked/7/retry"], "1"),
    Call("subscription.skip_parked", ("7", "why"), {}, [({}, 204)], ["POST /subscriptions/5/parked/7/skip"],
         "None"),
]  # fmt: skip
IN_OTHER_TESTS = {
    "publish", "feed", "partition_for", "publishing_properties", "subscription", "consume",
    "parts",
}  # fmt: skip


def client(kind: Kind, *handlers: Any) -> tuple[Any, Handlers]:
    """Return a client and the hub that answers it."""
    hub = Handlers(*handlers)
    return kind.client("http://s/", http=kind.http(hub)), hub


@pytest.mark.parametrize("call", CALLS, ids=[f"{call.name}: {call.requests[-1]}" for call in CALLS])
async def test_method_makes_its_requests_and_returns_their_answer(kind: Kind, call: Call) -> None:
    hub, handlers = client(kind, *(json(value, status) for value, status in call.answers))

    _, _, of_subscription = call.name.rpartition("subscription.")
    caller = hub if of_subscription == call.name else hub.subscription("5")
    found = await result(getattr(caller, of_subscription)(*call.given, **call.options))

    asked = [f"{each.method} {str(each.url).removeprefix('http://s')}" for each in handlers.requests]
    assert asked == call.requests
    assert call.shows in repr(found)


OF_STREAMS = {"id", "stream_id", "advance", "commit", "extend_lease", "end", "stop"}


@pytest.mark.parametrize(
    ("prefix", "classes", "others"),
    [
        ("", (Client, AsyncClient), IN_OTHER_TESTS),
        ("subscription.", (SubscriptionStream, AsyncSubscriptionStream), OF_STREAMS),
    ],
    ids=["client", "subscription"],
)
def test_both_kinds_have_the_methods_of_the_table(prefix: str, classes: tuple[type, type], others: set[str]) -> None:
    names = [{name.removeprefix("aclose") for name in vars(each) if name[0] != "_"} - {"", "close"} for each in classes]
    tested = {each.name.removeprefix(prefix) for each in CALLS if each.name.startswith(prefix)}

    assert names[0] == names[1]
    assert names[0] - tested == others


@pytest.mark.parametrize(("method", "status"), [("replace_event_type", 200), ("check_definition", 204)])
async def test_definition_is_completed_before_it_is_sent(kind: Kind, method: str, status: int) -> None:
    hub, handlers = client(kind, json({}, status))

    await result(getattr(hub, method)({"name": "a", "category": "business"}))

    assert msgspec.json.decode(handlers.requests[0].content) == {
        "name": "a",
        "category": "business",
        "owning_application": "",
        "enrichment_strategies": ["metadata_enrichment"],
        "schema": {"type": "json_schema", "schema": "{}"},
    }


class Struct(msgspec.Struct):
    a: int


@dataclass
class Iterable:
    """One event, although one can iterate over it."""

    a: int

    def __iter__(self) -> Iterator[int]:
        return iter([self.a])


class Model(pydantic.BaseModel):
    """Likewise: one iterates over its fields."""

    a: int


async def async_events() -> AsyncIterator[Any]:
    yield {"a": 1}


async def test_publish_takes_one_event_or_an_iterable_of_events(kind: Kind) -> None:
    hub, handlers = client(kind, json({"category": "undefined"}), json({"count": 1, "cursors": {"0": "c"}}))
    one = {"a": 1}
    many = [[one], iter([b'{"a":1}']), *([async_events()] if kind is ASYNC else [])]

    for events in (one, b'{"a":1}', NewEvent.of(b'{"a":1}'), Struct(1), Iterable(1), Model(a=1), *many):
        assert await result(hub.publish("a", events)) == Published(1, 17, {0: "c"})

    assert {request.content for request in handlers.requests[1:]} == {b'{"data":{"a":1}}\n'}


async def test_feed_of_a_client_is_read_with_its_own_or_a_given_partition_count(kind: Kind) -> None:
    discovery = json({"token": "1-2", "partitions": [{"id": "0"}, {"id": "1"}]})
    hub, handlers = client(kind, discovery, lines(), lines())

    await result(hub.feed("order.placed").read({0: "x", 1: "y"}))
    await result(hub.feed("order.placed", partition_count=4).read({3: "z"}))

    assert handlers.urls == [
        "http://s/feeds/order.placed",
        "http://s/feeds/order.placed?n=2&cursor0=x&cursor1=y&details=1",
        "http://s/feeds/order.placed?n=4&cursor3=z&details=1",
    ]


async def test_stream_of_a_subscription_brings_batches_to_commit_and_ends_with_the_reason(kind: Kind) -> None:
    lines_sent = text(last=1, count=2) + text(count=0, debug="Stream timeout reached")
    began = httpx2.Response(200, headers={"x-nakadi-streamid": "s1"}, content=lines_sent)
    hub, handlers = client(kind, lambda _: began, json({}, 204))

    async with opened(hub.subscription("5", reconnect=False)) as stream:
        batch = await first(stream)
        await result(batch.commit())
        await result(stream.commit([batch]))
        await result(stream.extend_lease())
        with pytest.raises((StopAsyncIteration, RuntimeError)):
            await first(stream)

    await close(stream)
    assert [event.data for event in batch.events] == [{"n": 0}, {"n": 1}]
    assert (stream.id, stream.stream_id, stream.reason) == ("5", "s1", "Stream timeout reached")
    paths = ["events?details=1", "cursors", "cursors", "streams/s1/lease", "streams/s1/release"]
    assert handlers.urls == [f"http://s/subscriptions/5/{path}" for path in paths]


def refusing(status: int, code: str, **fields: Any) -> Any:
    """Return a handler that answers with a problem."""
    body = {"type": f"urn:penstock:problem:{code}", "detail": code, **fields}
    return lambda _: httpx2.Response(status, json=body, headers={"content-type": "application/problem+json"})


async def test_problem_of_the_hub_is_raised_as_the_error_that_it_names(kind: Kind) -> None:
    exists, gone = refusing(409, "event-type-exists", event_type="a"), refusing(404, "subscription-not-found")
    hub, _ = client(kind, exists, gone)

    with pytest.raises(EventTypeExists) as caught:
        await result(hub.create_event_type("a"))
    async with opened(hub.subscription("5")) as stream:
        with pytest.raises(SubscriptionNotFound):
            await first(stream)

    assert caught.value.fields == {"event_type": "a"}


@pytest.mark.parametrize("made", [Client, AsyncClient, Feed, AsyncFeed])
@pytest.mark.parametrize("options", [{}, {"http": object()}], ids=["own", "given"])
def test_url_without_a_scheme_is_refused_at_once(made: Any, options: dict[str, Any]) -> None:
    with pytest.raises(BadParameter, match=r"parameter url is 'localhost:1'; allowed: .* such as http://localhost:1"):
        made("localhost:1", **options)


def test_base_url_of_a_given_http_client_is_used() -> None:
    handlers = Handlers(json([]))
    http = httpx2.Client(transport=httpx2.MockTransport(handlers), base_url="http://s/hub")

    Client("", http=http).event_types()

    assert handlers.urls == ["http://s/hub/event-types"]


async def test_with_block_closes_the_clients_own_http_client_alone_and_lets_errors_out(kind: Kind) -> None:
    given, own = kind.http(Handlers()), kind.client("http://s")

    async with opened(kind.client("http://s", http=given)) as entered:
        assert isinstance(entered, kind.client)
    with pytest.raises(ZeroDivisionError):
        async with opened(own):
            raise ZeroDivisionError

    assert not given.is_closed
    with pytest.raises(RuntimeError, match="closed"):
        await result(own.event_types())


class EndedError(BaseException):
    """An exception that a signal handler raises at any place."""


class Ending(httpx2.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:  # noqa: ARG002
        raise EndedError


async def test_send_of_an_async_producer_ends_when_a_signal_handler_raises() -> None:
    hub = AsyncClient("http://hub", http=httpx2.AsyncClient(transport=Ending()))
    producer = AsyncIdempotentProducer(hub, "order.placed", producer_group="counter")

    with pytest.raises(BaseExceptionGroup) as raised:
        await producer.send([{"n": 1}], partition=0)

    assert raised.group_contains(EndedError)
