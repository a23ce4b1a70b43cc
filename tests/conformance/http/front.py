"""Cases of the HTTP front: the bytes that a client sends, and the outcomes that are right."""

import json
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx2

from tests.conformance.http.wire import ANSWER_SECONDS_MAX, Answer, Connection
from tests.served import Served, create, page_of

FEED: Final = "the.feed.of.the.case"
"""Stands in a case's bytes for the name of its own event type, which is as long."""
EVENT: Final = b'{"data":{"id":1}}\n'
DELETE: Final = (
    f"DELETE /event-types/{FEED} HTTP/1.1\r\nHost: hub\r\nX-Flow-Id: smuggled\r\nConnection: close\r\n\r\n".encode()
)
"""A request that no client has sent: bytes of a body, or bytes after a request that has to end its connection."""
SENTINEL: Final = b"GET /version HTTP/1.1\r\nHost: hub\r\nX-Flow-Id: sentinel\r\nConnection: close\r\n\r\n"
"""A request whose answer shows that the front has found the end of the request before it."""
PROBLEM: Final = "application/problem+json"


class Await(NamedTuple):
    """A step of a case: the client goes on once the front has said something."""

    status: int
    """100: the interim answer; else the final one."""


class ByByte(NamedTuple):
    """A step of a case: the client sends each byte by itself."""

    request: bytes


Step = bytes | ByByte | Await


class Outcome(NamedTuple):
    """An outcome that a case may have."""

    answers: tuple[int, ...]
    """The statuses, in the order of the requests."""
    stored: tuple[int, ...] = ()
    """The ids of the events that the feed has afterwards, in their order."""
    stays: bool = True
    """Whether the connection takes another request; else the front closes it, and executes nothing that follows."""


STORED: Final = Outcome((200,), (1,))
STORED_AND_CLOSED: Final = Outcome((200,), (1,), stays=False)
REFUSED: Final = Outcome((400,), stays=False)
ANSWERED: Final = Outcome((200,))


class Case(NamedTuple):
    """A client's bytes, and each outcome that is right."""

    name: str
    steps: Sequence[Step]
    outcomes: Sequence[Outcome]
    proxied: bool = True
    """Whether a proxy hands it on as it is, so that the outcome behind one is the same."""


def case(name: str, steps: Step | Sequence[Step], *outcomes: Outcome, proxied: bool = True) -> Case:
    """Return a case. A proxy may refuse or mend one that may end its connection."""
    steps = [steps] if isinstance(steps, bytes | ByByte | Await) else steps
    return Case(name, steps, outcomes, proxied and all(outcome.stays for outcome in outcomes))


def raw(*head: str | bytes, body: bytes = b"") -> bytes:
    """Return a head of these lines, and a body after it."""
    return b"".join((line.encode() if isinstance(line, str) else line) + b"\r\n" for line in (*head, "")) + body


def post(*headers: str | bytes, body: bytes = EVENT, to: str = f"/feeds/{FEED}") -> bytes:
    """Return a publish of an event with further *headers*."""
    return raw(f"POST {to} HTTP/1.1", "Host: hub", *headers, f"Content-Length: {len(body)}", body=body)


def post_chunked(*chunks: bytes, headers: Sequence[str] = ("Transfer-Encoding: chunked",)) -> bytes:
    """Return a publish whose body are these bytes, framed as they are."""
    return raw(f"POST /feeds/{FEED} HTTP/1.1", "Host: hub", *headers, body=b"".join(chunks))


def get(*headers: str | bytes, to: str = f"/feeds/{FEED}?n=1&cursor0=_first") -> bytes:
    """Return a read of the feed with further *headers*."""
    return raw(f"GET {to} HTTP/1.1", "Host: hub", *headers)


def event(number: int) -> bytes:
    """Return the line of one event."""
    return b'{"data":{"id":%d}}\n' % number


class Front:
    """An address that clients connect to, and a client of the hub behind it.

    *handed_on* is the log in which a proxy writes each request that it has taken; None without a proxy.
    """

    def __init__(self, port: int, http: httpx2.Client, handed_on: Path | None = None) -> None:
        self.port = port
        self.http = http
        self.handed_on = handed_on
        self._empty: list[Served] = []
        """Event types of earlier cases that have stored nothing: to create one takes longer than most cases."""

    def create(self) -> Served:
        """Return an event type without events."""
        if self._empty:
            return self._empty.pop()
        return create(self.http, name=f"front.{uuid.uuid4().hex[: len(FEED) - 6]}")

    def connect(self) -> Connection:
        """Connect as a client."""
        return Connection(self.port)

    def ids(self, feed: Served) -> tuple[int, ...]:
        """Return the ids of the events that *feed* has; it is still there."""
        answer = feed.get(n=1, cursor0="_first", pagesizehint=10_000)
        assert answer.status_code == 200, f"bytes of a client were executed: the event type is gone. {answer.text}"
        return tuple(page_of(answer).ids)

    def deleted_by_proxy(self, feed: Served) -> bool:
        """Return whether the feed is gone because the proxy itself took bytes for a request: its mistake, if any."""
        if self.handed_on is None or feed.http.get(f"/event-types/{feed.name}").status_code == 200:
            return False
        line, log = f"DELETE /event-types/{feed.name}\n", self.handed_on
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while line not in log.read_text() and time.monotonic() < deadline:  # It may write it after its answer.
            pass
        return line in log.read_text()

    def check(self, case: Case) -> Sequence[Answer]:
        """Play *case*, check that its outcome is right, and return the answers.

        Behind a proxy that may refuse or mend the request, it is right that what was acknowledged is what was stored,
        and that the hub has done nothing but what the proxy asked of it.
        """
        feed = self.create()
        answers = self._played(case, feed)
        said = [f"{each.status} {each.body[:200]!r}" for each in answers]
        if self.deleted_by_proxy(feed):
            return answers
        stays = bool(answers) and answers[-1].flow == "sentinel"
        if stays:
            del answers[-1]
        found = Outcome(tuple(each.status for each in answers), self.ids(feed), stays)
        assert published(answers) == len(found.stored), f"acknowledged is not what was stored: {found}, {said}"
        assert flows(answers) == sorted(flows(answers)), f"answers out of order: {said}"
        asks = any(b"100-continue" in step.lower() for step in case.steps if isinstance(step, bytes))
        assert asks or not any(each.interim for each in answers), f"100 that nobody asked for: {said}"
        if case.proxied or self.handed_on is None:
            allowed = " or ".join(map(str, case.outcomes))
            assert found in case.outcomes, f"{found} where {allowed} is right: {said}"
        if not found.stored:
            self._empty.append(feed)
        return answers

    def _played(self, case: Case, feed: Served) -> list[Answer]:
        """Play *case* on a connection of its own; return the answers.

        A request follows it. Where the connection has to end in each outcome that is one that would do harm.
        """
        answers = []
        with self.connect() as connection:
            for step in case.steps:
                match step:
                    case ByByte(request):
                        connection.send(*(bytes([byte]) for byte in named(request, feed)))
                    case Await(status=100):
                        assert connection.interim() == 100
                    case Await():
                        answers.append(connection.answer())
                    case _:
                        connection.send(named(step, feed))
            may_stay = any(outcome.stays for outcome in case.outcomes)
            connection.send(SENTINEL if may_stay else named(DELETE, feed))
            return [*answers, *connection.answers()]


def named(request: bytes, feed: Served) -> bytes:
    """Return the bytes of a case with the name of its event type."""
    assert len(feed.name) == len(FEED)
    return request.replace(FEED.encode(), feed.name.encode())


def published(answers: Sequence[Answer]) -> int:
    """Return how many events these answers acknowledge."""
    return sum(json.loads(each.body)["count"] for each in answers if each.status == 200 and b'"count"' in each.body)


def flows(answers: Sequence[Answer]) -> list[str]:
    """Return the flow ids of those requests that number themselves."""
    return [each.flow for each in answers if each.flow.startswith("request-")]


def problem(answer: Answer, status: int) -> dict[str, Any]:
    """Return the problem that *answer* must hold."""
    assert answer.status == status, answer
    assert answer.headers["content-type"] == PROBLEM, answer
    found: dict[str, Any] = json.loads(answer.body)
    assert found["status"] == status, found
    assert found["title"] and found["detail"], found
    return found
