"""An unfinished request keeps its connection for a limited time: `--header-timeout` and `--body-timeout`."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import pytest

from tests.conformance.http.conftest import BODY_SECONDS, HEADER_SECONDS
from tests.conformance.http.front import EVENT, FEED, Front, event, get, named, post, post_chunked, problem
from tests.conformance.http.wire import Answer, Connection
from tests.served import Served

PATIENCE_SECONDS = 300.0
"""Many times as long as the limits."""
PAUSE_SECONDS = 0.3
"""Less than either limit."""


class Played(NamedTuple):
    """The answers to a slow client, and its feed."""

    answers: list[Answer]
    feed: Served


Client = Callable[[Connection, Served], list[Answer]]


def stalls(request: bytes) -> Client:
    """Return a client that sends so much of a request, and then waits."""

    def play(connection: Connection, feed: Served) -> list[Answer]:
        connection.send(named(request, feed))
        assert connection.hears_within(PATIENCE_SECONDS), "the front waits for ever"
        return connection.answers()

    return play


def drips(request: bytes, *, segment_bytes: int = 1, after: bytes = b"") -> Client:
    """Return a client that sends *after*, then a request in small segments with pauses, as long as it may."""

    def play(connection: Connection, feed: Served) -> list[Answer]:
        sends = named(request, feed)
        connection.send(named(after, feed))
        for start in range(0, len(sends), segment_bytes):
            if connection.hears_within(PAUSE_SECONDS):
                break
            connection.send(sends[start : start + segment_bytes])
        return connection.answers()

    return play


def stalls_after_an_answer(connection: Connection, feed: Served) -> list[Answer]:
    """Be served, and then send half a head."""
    connection.send(named(get(), feed))
    assert connection.answer().status == 200
    return stalls(get()[:40])(connection, feed)


def rests_between_requests(connection: Connection, feed: Served) -> list[Answer]:
    """Send a request, nothing for longer than a head may take, and another request."""
    connection.send(named(get(), feed))
    first = connection.answer()
    assert not connection.hears_within(HEADER_SECONDS * 1.5), "an idle connection is not kept"
    connection.send(named(get("Connection: close"), feed))
    return [first, *connection.answers()]


DRIPPING = b"y" * int(PATIENCE_SECONDS / PAUSE_SECONDS)
SEGMENT_BYTES = 1 << 10
BODY = b"".join(event(number).ljust(SEGMENT_BYTES, b"\n") for number in range(10))
CUT_HEADS: dict[str, Client] = {
    "nothing": stalls(b""),
    "half a request line": stalls(b"GET /ver"),
    "half a head": stalls(b"GET /version HTTP/1.1\r\nHost: hub\r\n"),
    "half a head of a second request": stalls_after_an_answer,
    "a request line that drips": drips(DRIPPING, after=b"GET /"),
    "a header that drips": drips(DRIPPING, after=b"GET /version HTTP/1.1\r\nHost: hub\r\nX-Note: "),
}
CUT_BODIES: dict[str, Client] = {
    "none of a body": stalls(post()[: -len(EVENT)]),
    "half a body": stalls(post(body=event(1) + event(2))[: -len(EVENT)]),
    "none of a body that comes in chunks": stalls(post_chunked()),
    "half a chunk": stalls(post_chunked(b"12\r\n", EVENT[:9])),
    "a body without its last chunk": stalls(post_chunked(b"12\r\n", EVENT, b"\r\n")),
    "a body that drips": drips(BODY[:200], after=post(body=BODY)[: -len(BODY)]),
    "chunks that drip": drips(b"1\r\n\n\r\n" * 40, after=post_chunked()),
    "none of a body, with an upgrade": stalls(post("Connection: Upgrade", "Upgrade: h2c")[: -len(EVENT)]),
}
SERVED: dict[str, tuple[Client, list[int], list[int]]] = {
    "a body that comes a KiB at a time": (
        drips(BODY, segment_bytes=SEGMENT_BYTES, after=post("Connection: close", body=BODY)[: -len(BODY)]),
        [200],
        [*range(10)],
    ),
    "a reader that waits longer than the limits": (
        stalls(get("Connection: close", to=f"/feeds/{FEED}?n=1&cursor0=_last&wait={BODY_SECONDS + 1}")),
        [200],
        [],
    ),
    "a connection that rests between its requests": (rests_between_requests, [200, 200], []),
}


@pytest.fixture(scope="module")
def played(impatient_front: Front) -> Iterator[dict[str, Future[Played]]]:
    """The outcome of each client; all are slow at the same time."""

    def play(client: Client) -> Played:
        feed = impatient_front.create()
        with impatient_front.connect() as connection:
            return Played(client(connection, feed), feed)

    clients = CUT_HEADS | CUT_BODIES | {name: client for name, (client, _, _) in SERVED.items()}
    with ThreadPoolExecutor(len(clients)) as pool:
        yield {name: pool.submit(play, client) for name, client in clients.items()}


@pytest.mark.parametrize("name", CUT_HEADS)
def test_head_that_is_not_complete_in_time_ends_its_connection(played: dict[str, Future[Played]], name: str) -> None:
    for answer in played[name].result().answers:
        assert problem(answer, 408)["detail"].startswith("the headers of the request did not arrive within ")


@pytest.mark.parametrize("name", CUT_BODIES)
def test_body_that_is_too_slow_is_answered_408_and_not_stored(
    impatient_front: Front, played: dict[str, Future[Played]], name: str
) -> None:
    answers, feed = played[name].result()
    assert len(answers) == 1
    assert problem(answers[0], 408)["detail"].startswith("the body of the request did not arrive within ")
    assert impatient_front.ids(feed) == ()


@pytest.mark.parametrize("name", SERVED)
def test_slow_client_that_makes_progress_is_served(
    impatient_front: Front, played: dict[str, Future[Played]], name: str
) -> None:
    answers, feed = played[name].result()
    _, statuses, stored = SERVED[name]
    assert [answer.status for answer in answers] == statuses
    assert [*impatient_front.ids(feed)] == stored
