"""The event loop serves others while somebody sends whatever is hardest to read."""

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx2
import msgspec
import pytest

from penstock.schema.json_text import CONTAINERS_MAX
from penstock.server.http.requests import BODY_BYTES_MAX
from penstock.testing.live_hub import LiveHub, live_hub
from tests.served import Served, client_of, create

STALL_SECONDS_MAX = 0.050
DECODE_SECONDS = 0.006
COPY_SECONDS = 0.0125
"""The times of two calls into C, see `measure_slowness`, on the machine where no stall may be longer."""
ATTEMPTS = 5
"""The same work takes several times as long beside programs that use the processor's caches."""
NDJSON = {"content-type": "application/x-ndjson"}
JSON = {"content-type": "application/json"}
Attack = Callable[[LiveHub, Served], None]
_attacks: list[Attack] = []


def attack(function: Attack) -> Attack:
    _attacks.append(function)
    return function


def send(hub: LiveHub, request: bytes) -> None:
    """Send bytes on a connection of their own, and read what comes back, if anything."""
    with socket.create_connection(("127.0.0.1", hub.port), timeout=300) as connection:
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 20):
                pass
        except ConnectionError:
            return  # It was refused before all was sent.


def get(hub: LiveHub, target: str) -> None:
    send(hub, f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())


@attack
def many_tiny_lines(_: LiveHub, feed: Served) -> None:
    feed.post(b'{"data":{}}\n' * 100_000, NDJSON)


@attack
def many_empty_lines(_: LiveHub, feed: Served) -> None:
    feed.post(b"\n" * BODY_BYTES_MAX, NDJSON)


@attack
def large_batch(_: LiveHub, feed: Served) -> None:
    feed.http.post(f"/event-types/{feed.name}/events", content=b"[" + b"{}," * 100_000 + b"{}]", headers=JSON)


@attack
def batch_that_is_refused_at_its_end(_: LiveHub, feed: Served) -> None:
    body = b"[" + b"{}," * 100_000 + b'{"metadata":1,"metadata":2}]'
    feed.http.post(f"/event-types/{feed.name}/events", content=body, headers=JSON)


@attack
def one_event_that_is_far_too_large(_: LiveHub, feed: Served) -> None:
    for inner, is_line in ((b"{},", True), (b"1,", False), (b"[],", True), (b'"},{",', True), (b"{},", False)):
        event = b'{"a":[' + inner * (15_000_000 // len(inner)) + b"0]}"
        if is_line:
            assert feed.post(b'{"data":' + event + b"}\n", NDJSON).status_code == 413
        else:
            feed.http.post(f"/event-types/{feed.name}/events", content=b"[" + event + b"]", headers=JSON)


@attack
def large_events_of_many_objects(_: LiveHub, feed: Served) -> None:
    for objects in (CONTAINERS_MAX - 2, 320_000):
        event = b'{"a":[' + b"{}," * objects + b"0]}"
        feed.post((b'{"data":' + event + b"}\n") * 4, NDJSON)
        feed.http.post(f"/event-types/{feed.name}/events", content=b"[" + b",".join([event] * 4) + b"]", headers=JSON)


@attack
def deeply_nested_event(_: LiveHub, feed: Served) -> None:
    feed.post(b'{"data":' + b"[" * 20_000_000, NDJSON)
    feed.post(b'{"data":' + b'{"a":' * 2_000 + b"1" + b"}" * 2_000 + b"}\n", NDJSON)


@attack
def gzip_bomb(_: LiveHub, feed: Served) -> None:
    for size in (BODY_BYTES_MAX, 2 * BODY_BYTES_MAX):
        feed.post(gzip.compress(b"\n" * size, 1), NDJSON | {"content-encoding": "gzip"})


@attack
def long_string_with_escapes(_: LiveHub, feed: Served) -> None:
    feed.post(b'{"data":{"a":"' + b"\\u00e4" * 8_000_000 + b'"}}\n', NDJSON)


@attack
def small_bodies_that_are_hard_to_read(_: LiveHub, feed: Served) -> None:
    for body in (
        b"\n" * 16_000,
        b'{"data":{}}\n' * 1_300,
        b'{"data":{"a":' + b"[" * 16_000,
        b'{"data":{"a":' + b"9" * 16_000,
    ):
        for _again in range(20):
            feed.post(body, NDJSON)
            feed.http.post(f"/event-types/{feed.name}/events", content=body, headers=JSON)


@attack
def large_query(hub: LiveHub, feed: Served) -> None:
    get(hub, f"{feed.path}?n=1&cursor0=" + "A" * 500_000)
    get(hub, f"{feed.path}?n=4096&" + "&".join(f"cursor{number}=_first" for number in range(4_096)))
    get(hub, f"{feed.path}?" + "&".join(f"a{number}=1" for number in range(50_000)))
    get(hub, f"{feed.path}?n=1&cursor0=" + "%41" * 170_000)
    get(hub, f"{feed.path}?n=1&cursor0=_first&event-types=" + "a,0" * 170_000)
    get(hub, f"{feed.path}/events?" + "cursor=a&" * 50_000)


@attack
def long_path(hub: LiveHub, _: Served) -> None:
    for segment in ("a", "a/", "%2e", "a.", "//", "\u00e4", "*", "0"):
        for before in ("/", "/event-types/", "/feeds/", "/subscriptions/", "/event-types/a/partitions/"):
            get(hub, before + quote(segment, safe="/%.*") * (400_000 // len(quote(segment))))


@attack
def many_headers(hub: LiveHub, feed: Served) -> None:
    for name, count in ((b"a", 20_000), (b"accept", 5_000), (b"accept-encoding", 3_000), (b"forwarded", 5_000)):
        lines = b"".join(b"%s: a;q=0.%d,b\r\n" % (name, number) for number in range(count))
        send(
            hub,
            b"GET %s?n=1&cursor0=_first HTTP/1.1\r\nHost: localhost\r\n" % feed.path.encode()
            + lines[:60_000]
            + b"\r\n\r\n",
        )


@attack
def head_in_tiny_segments(hub: LiveHub, _: Served) -> None:
    head = b"GET /" + b"a" * 400_000
    with socket.create_connection(("127.0.0.1", hub.port), timeout=300) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(head), 200):
            connection.sendall(head[at : at + 200])


@attack
def body_in_tiny_chunks(hub: LiveHub, feed: Served) -> None:
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" % feed.path.encode()
    send(hub, head + b"1\r\n\n\r\n" * 1_000_000 + b"0\r\n\r\n")


@attack
def pipelined_requests(hub: LiveHub, _: Served) -> None:
    send(hub, b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5_000)


@attack
def schema_with_many_patterns(_: LiveHub, feed: Served) -> None:
    patterns = {f"a{number}": {"type": "string", "pattern": f"^(a|b|[c-z]{{1,50}})*{number}$"} for number in range(200)}
    schema = json.dumps({"properties": patterns})
    answer = feed.http.post(f"/event-types/{feed.name}/schemas", json={"type": "json_schema", "schema": schema})
    assert answer.status_code in (200, 422), answer.text
    feed.post(json.dumps({"data": dict.fromkeys(patterns, "ab" * 30)}).encode() + b"\n", NDJSON)


@attack
def schema_that_is_large_and_deep(_: LiveHub, feed: Served) -> None:
    for schema in ('{"not":' * 250 + "{}" + "}" * 250, json.dumps({"enum": list(range(150_000))}), '{"a":[' * 2_000):
        feed.http.post(f"/event-types/{feed.name}/schemas", json={"type": "json_schema", "schema": schema})


@attack
def schema_with_many_properties(_: LiveHub, feed: Served) -> None:
    schema = json.dumps({"properties": {f"name_{number}": {"type": "string"} for number in range(15_000)}})
    feed.http.post(f"/event-types/{feed.name}/schemas", json={"type": "json_schema", "schema": schema})
    feed.post(json.dumps({"data": {f"name_{number}": "a" for number in range(15_000)}}).encode() + b"\n", NDJSON)


@attack
def many_cursors_in_a_body(_: LiveHub, feed: Served) -> None:
    cursors = json.dumps([{"partition": "0", "offset": "BEGIN"}] * 20_000)
    for route in ("cursors-lag", "shifted-cursors", "cursor-distances"):
        feed.http.post(f"/event-types/{feed.name}/{route}", content=cursors, headers=JSON)
    feed.http.get(f"/event-types/{feed.name}/events", headers={"x-nakadi-cursors": cursors[:60_000]})


@attack
def subscription_with_many_event_types(_: LiveHub, feed: Served) -> None:
    names = [f"{feed.name}.{number}" for number in range(100_000)]
    feed.http.post("/subscriptions", json={"owning_application": "shop", "event_types": names})


@attack
def many_connections_at_once(hub: LiveHub, _: Served) -> None:
    with ExitStack() as stack:
        for _again in range(1_000):
            stack.enter_context(socket.create_connection(("127.0.0.1", hub.port), timeout=300))


@contextmanager
def looking(hub: LiveHub) -> Iterator[None]:
    """Send small requests all the time, so that the hub has somebody to keep waiting."""
    done = threading.Event()

    def look() -> None:
        with client_of(hub) as http:
            while not done.wait(0.005):
                http.get("/version")

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def stall_seconds(http: httpx2.Client) -> float:
    [line] = [
        line
        for line in http.get("/metrics").text.splitlines()
        if line.startswith("penstock_event_loop_stall_seconds_max ")
    ]
    return float(line.split()[1])


def measure_slowness() -> float:
    """Return how many times as long as elsewhere a call into C takes on this machine now, from 1 to 3."""
    text, parts = b"[" + b"{}," * 100_000 + b"{}]", [bytes(1 << 20)] * 50
    started = time.thread_time()
    msgspec.json.decode(text)
    decoded = time.thread_time()
    b"".join(parts)
    copied = time.thread_time()
    return min(max(1.0, (decoded - started) / DECODE_SECONDS, (copied - decoded) / COPY_SECONDS), 3.0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("sends", _attacks, ids=lambda each: each.__name__)
def test_event_loop_does_not_stall(sends: Attack, tmp_path: Path) -> None:
    found = []
    for attempt in range(ATTEMPTS):
        database = f"sqlite:///{tmp_path}/hub-{attempt}.db"
        with live_hub(database, log=tmp_path / "hub.log") as hub, client_of(hub) as http:
            feed = create(http)
            feed.publish({"id": 1})
            with looking(hub):
                sends(hub, feed)
            assert http.get("/health").status_code == 200
            found.append(stall_seconds(http))
        if found[-1] < STALL_SECONDS_MAX * measure_slowness():
            return
    pytest.fail(f"the event loop has stalled for {found} seconds")
