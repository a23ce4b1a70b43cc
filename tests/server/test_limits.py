"""Limits of use, as clients meet them: `penstock serve --limit`."""

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient

from penstock.client.client import Client
from penstock.core.access import Caller
from penstock.hub.hub import Hub
from penstock.server import HubApp
from penstock.server.authentication.tokens import TokenMethod
from penstock.server.limits import UsageLimits
from penstock.storage import open_store
from penstock.testing.factories import an_event_type
from penstock.testing.live_hub import LiveHub, live_hub
from tests.served import Served, client_of, create, problem_of, until

NAME = "order.placed"
GET = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextmanager
def limited_hub(folder: Path, *limits: str) -> Iterator[tuple[LiveHub, httpx2.Client]]:
    options = [word for limit in limits for word in ("--limit", limit)]
    with live_hub(f"sqlite:///{folder}/hub.db", log=folder / "hub.log", options=options) as hub, client_of(hub) as http:
        yield hub, http


def test_caller_beyond_its_requests_is_answered_429_and_served_after_retry_after(tmp_path: Path) -> None:
    with limited_hub(tmp_path, "requests=5") as (_, http):
        feed = create(http)
        answers = (feed.post(b'{"data":{"id":1}}\n') for _ in range(1_000))
        refused = next(each for each in answers if each.status_code != 200)

        problem = problem_of(refused, 429, "too-many-requests")
        assert (problem["limit"], problem["allowed"]) == ("requests", 5)
        assert int(refused.headers["retry-after"]) == problem["retry_after"] >= 1
        assert http.get("/health").status_code == 200, "health checks are always answered"
        time.sleep(problem["retry_after"])
        assert feed.post(b'{"data":{"id":1}}\n').status_code == 200


def test_python_client_waits_as_long_as_the_hub_asks_for(tmp_path: Path) -> None:
    with limited_hub(tmp_path, "requests=20") as (hub, http):
        feed = create(http)
        with Client(hub.url) as client:
            for number in range(30):
                client.publish(feed.name, [{"id": number}])
        time.sleep(1.5)
        assert feed.read().ids == list(range(30))


@pytest.mark.parametrize(("limit", "code", "status"), [("", "too-many-requests", 429), ("total-", "hub-busy", 503)])
def test_waiting_readers_and_streams_count_as_streams_while_they_last(
    limit: str, code: str, status: int, tmp_path: Path
) -> None:
    with limited_hub(tmp_path, f"{limit}streams=2") as (_, http):
        feed = create(http)
        feed.publish_ids([1])
        end = feed.read().cursor
        low_level = f"/event-types/{feed.name}/events"
        subscription = http.post(
            "/subscriptions", json={"owning_application": "shop", "event_types": [feed.name]}
        ).json()["id"]
        with ExitStack() as stack:
            stack.enter_context(http.stream("GET", low_level, params={"stream_timeout": 300}))
            stack.enter_context(http.stream("GET", f"/subscriptions/{subscription}/events"))

            refused = [
                http.get(low_level),
                http.get(f"/subscriptions/{subscription}/events"),
                feed.get(n=1, cursor0=end, wait=20),
            ]

            for each in refused:
                problem = problem_of(each, status, code)
                assert (problem["limit"], problem["allowed"]) == (f"{limit}streams", 2)
                assert each.headers["retry-after"]
            assert feed.get(n=1, cursor0="_first", wait=20).status_code == 200, "a read that need not wait is no stream"
            assert http.head(low_level).status_code == 200
        until(lambda: feed.get(n=1, cursor0=end, wait=1).status_code == 200)


def connect(hub: LiveHub, stack: ExitStack, address: str = "127.0.0.1") -> socket.socket:
    return stack.enter_context(
        socket.create_connection(("127.0.0.1", hub.port), timeout=300, source_address=(address, 0))
    )


def say(connection: socket.socket) -> bytes:
    """Send a request, and return what comes back, up to the end of the connection or of the answer's head."""
    received = b""
    try:
        connection.sendall(GET)
        while b"\r\n\r\n" not in received and (more := connection.recv(1 << 16)):
            received += more
    except ConnectionError:
        return received
    return received


def test_connections_beyond_the_limit_of_an_address_are_answered_and_closed(tmp_path: Path) -> None:
    with limited_hub(tmp_path, "connections=3") as (hub, _), ExitStack() as stack:
        first = [connect(hub, stack, "127.0.0.2") for _ in range(3)]
        assert all(say(each).startswith(b"HTTP/1.1 200") for each in first)

        refused = say(connect(hub, stack, "127.0.0.2"))

        assert refused.startswith(b"HTTP/1.1 429"), refused
        assert b"retry-after: 5\r\n" in refused
        assert say(connect(hub, stack, "127.0.0.3")).startswith(b"HTTP/1.1 200")
        first[0].close()
        until(lambda: say(connect(hub, stack, "127.0.0.2")).startswith(b"HTTP/1.1 200"))


def test_hub_with_all_its_connections_answers_503_and_recovers(tmp_path: Path) -> None:
    with limited_hub(tmp_path, "total-connections=20") as (hub, _), ExitStack() as stack:
        opened = [connect(hub, stack, f"127.0.0.{number}") for number in range(1, 21)]
        assert all(say(each).startswith(b"HTTP/1.1 200") for each in opened)

        assert say(connect(hub, stack)).startswith(b"HTTP/1.1 503")
        crowd = [connect(hub, stack) for _ in range(300)]
        for each in crowd:
            each.close()
        for each in opened:
            each.close()
        until(lambda: say(connect(hub, stack)).startswith(b"HTTP/1.1 200"))


def test_answers_beyond_the_limit_of_bytes_are_slowed_down_and_complete(tmp_path: Path) -> None:
    with limited_hub(tmp_path, "bytes-out=1MB") as (_, http):
        feed = create(http)
        feed.publish({"id": 1, "text": "x" * 900_000}, {"id": 2, "text": "x" * 900_000})
        feed.publish({"id": 3, "text": "x" * 900_000}, {"id": 4, "text": "x" * 900_000})
        began = time.monotonic()

        page = feed.get(n=1, cursor0="_first", pagesizehint=4, sending={"Accept-Encoding": "identity"})

        assert time.monotonic() - began > 0.5, "it has 3.6 MB, of which 2 MB come at once"
        assert page.status_code == 200
        assert [len(line) > 900_000 for line in page.text.splitlines()] == [True] * 4 + [False]


@pytest.mark.parametrize(("limit", "code", "status"), [("", "too-many-requests", 429), ("total-", "hub-busy", 503)])
def test_answers_that_readers_do_not_take_are_held_up_to_the_limit(
    tmp_path: Path, limit: str, code: str, status: int
) -> None:
    with limited_hub(tmp_path, f"{limit}bytes-held=10MB") as (hub, http), ExitStack() as stack:
        feed = create(http)
        for _ in range(12):
            assert feed.post(b'{"data":{"text":"%s"}}' % (b"x" * 900_000)).status_code == 200
        page = f"GET {feed.path}?n=1&cursor0=_first HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        stalled: list[socket.socket] = []
        until(lambda: not read_head(hub, page, stack, stalled).startswith(b"HTTP/1.1 200"))

        assert 1 < len(stalled) < 20
        plain = {"Accept-Encoding": "identity"}
        problem = problem_of(http.get(f"{feed.path}?n=1&cursor0=_first", headers=plain), status, code)
        assert (problem["limit"], problem["allowed"]) == (f"{limit}bytes-held", 10_000_000)
        assert feed.post(b'{"data":{"id":1}}\n').status_code == 200, "small requests need no room"
        for each in stalled:
            each.close()
        until(lambda: http.get(f"{feed.path}?n=1&cursor0=_first", headers=plain).status_code == 200)


def read_head(hub: LiveHub, request: bytes, stack: ExitStack, stalled: list[socket.socket]) -> bytes:
    """Send *request* on a connection of its own, and take no more of the answer than its first bytes."""
    connection = stack.enter_context(socket.socket())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(300)
    connection.connect(("127.0.0.1", hub.port))
    connection.sendall(request)
    stalled.append(connection)
    return connection.recv(15)


def serve_callers(folder: Path, *limits: str) -> tuple[HubApp, Sequence[str]]:
    """Return a hub that authenticates, and the tokens of two callers."""
    store = open_store(f"sqlite:///{folder}/hub.db")
    store.migrate()
    hub = Hub(store)
    hub.registry.create(an_event_type(NAME))
    tokens = [hub.admin.tokens.create(Caller("service", name)).secret for name in ("greedy", "modest")]
    return HubApp(lambda: hub, authentication=[TokenMethod()], limits=UsageLimits().replace(limits)), tokens


def test_authenticated_callers_of_one_address_have_limits_of_their_own(tmp_path: Path) -> None:
    app, (greedy, modest) = serve_callers(tmp_path, "requests=2")

    def publish(token: str) -> int:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/x-ndjson"}
        return http.post(f"/feeds/{NAME}", content=b'{"data":{"id":1}}\n', headers=headers).status_code

    with TestClient(app) as http:
        assert [publish(greedy) for _ in range(20)][-1] == 429
        assert [publish(modest) for _ in range(3)] == [200] * 3


def test_requests_without_a_valid_credential_count_by_address(tmp_path: Path) -> None:
    app, (greedy, _) = serve_callers(tmp_path, "requests=2")
    with TestClient(app) as http:
        statuses = [http.get("/event-types").status_code for _ in range(20)]

        assert (statuses[0], statuses[-1]) == (401, 429)
        assert http.get("/event-types", headers={"authorization": f"Bearer {greedy}"}).status_code == 200


def test_hub_without_limits_of_rates_counts_nothing_per_request(feed: Served) -> None:
    for _ in range(200):
        assert feed.publish_ids([1])
