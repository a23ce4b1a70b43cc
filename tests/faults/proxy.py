"""A proxy between a client and a hub that loses, delays, doubles or answers requests.

It takes whole HTTP/1.1 requests. The *fate* of a request is a function that takes its Visit.
"""

import http.client
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, NamedTuple, Self, TypeAlias

PATIENCE_SECONDS = 300.0


class Asked(NamedTuple):
    """A request of a client."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float


class Answered(NamedTuple):
    """An answer."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes


Fate: TypeAlias = Callable[["Visit"], None]
Which: TypeAlias = Callable[["Visit"], bool]


class Line:
    """Listens on a free port, and passes on to the hub's what nothing else is said of."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: list[Asked] = []
        """All that has come in whole, in its order."""
        self.busiest = 0
        """How many batches were under way to one partition at one time, at most."""
        self._guard = threading.Lock()
        self._fates: list[tuple[Which, Fate]] = []
        self._under_way: dict[str, int] = {}
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.ending = threading.Event()

    def __enter__(self) -> Self:
        self._start(self._listen)
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._guard:
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)

    def does(self, *fates: Fate, to: Which | None = None) -> None:
        """Let the next requests have these fates, in turn: those that are *to* something, by default the batches."""
        with self._guard:
            self._fates += [(to or is_batch, fate) for fate in fates]

    @property
    def batches(self) -> list[Asked]:
        """The batches that have come."""
        return [each for each in self.asked if each.method == "POST" and each.path.endswith("/events")]

    @property
    def left(self) -> int:
        """How many fates have met nobody yet."""
        return len(self._fates)

    def fate_of(self, visit: "Visit") -> Fate:
        """Take the fate of a request."""
        with self._guard:
            for at, (which, fate) in enumerate(self._fates):
                if which(visit):
                    del self._fates[at]
                    return fate
        return passed

    def track(self, end: socket.socket) -> socket.socket:
        """Take note of a connection, which is cut in the end."""
        with self._guard:
            self._open.add(end)
        return end

    def _start(self, work: Callable[..., None], *given: Any) -> None:
        self._threads.append(thread := threading.Thread(target=work, args=given, daemon=True))
        thread.start()

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._start(self._serve, self.track(client))

    def _serve(self, client: socket.socket) -> None:
        with closing(client), client.makefile("rb") as source, suppress(OSError, http.client.HTTPException):
            while (visit := Visit.of(self, client, source)) is not None and not visit.is_over:
                self._count(visit, 1)
                try:
                    self.fate_of(visit)(visit)
                finally:
                    self._count(visit, -1)
                if visit.is_over:
                    return

    def _count(self, visit: "Visit", more: int) -> None:
        if is_batch(visit):
            with self._guard:
                self._under_way[visit.path] = now = self._under_way.get(visit.path, 0) + more
                self.busiest = max(self.busiest, now)


class Visit:
    """One request that is under way."""

    def __init__(self, line: Line, client: socket.socket, source: Any, head: bytes) -> None:
        self.line = line
        self.head = head
        first, *fields = head.decode("latin-1").split("\r\n")[:-2]
        self.method, self.path, _ = first.split(" ")
        self.headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in fields)}
        self.is_over = False
        self._client = client
        self._source = source
        self._body: bytes | None = None

    @classmethod
    def of(cls, line: Line, client: socket.socket, source: Any) -> "Visit | None":
        """Return the next request of a client, its body unread; None: it has hung up."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            if not (more := source.readline()):
                return None
            head += more
        return cls(line, client, source, head)

    @property
    def ports(self) -> tuple[int, int]:
        """From which it comes, and to which."""
        return self._client.getpeername()[1], self._client.getsockname()[1]

    @property
    def size(self) -> int:
        """How long the body is."""
        return int(self.headers.get("content-length", 0))

    def body(self) -> bytes:
        """Read the body, once."""
        if self._body is None:
            self._body = self._source.read(self.size)
            self.line.asked.append(Asked(self.method, self.path, self.headers, self._body, time.monotonic()))
        return self._body

    def forward(self) -> Answered:
        """Ask the hub, and return its answer."""
        return ask(self.line, self.head + self.body(), self.method)

    def answer(self, answer: Answered) -> None:
        """Answer the client."""
        self.body()
        lines = [f"HTTP/1.1 {answer.status} -", *(f"{name}: {value}" for name, value in answer.headers)]
        head = "\r\n".join([*lines, f"content-length: {len(answer.body)}", "", ""])
        self._client.sendall(head.encode("latin-1") + answer.body)

    def hang_up(self) -> None:
        """Close the connection to the client."""
        self.is_over = True
        with suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)

    def wait_for_the_client_to_give_up(self) -> None:
        """Say nothing until the client has hung up."""
        self.is_over = True
        self._client.recv(1)

    def cut(self) -> None:
        """Hand on half of the body, and reset both connections."""
        with closing(connect(self.line)) as hub:
            hub.sendall(self.head + self._source.read(self.size // 2))
            _reset(hub)
        _reset(self._client)
        self.is_over = True


def connect(line: Line) -> socket.socket:
    """Connect to the hub."""
    return line.track(socket.create_connection(("127.0.0.1", line.port)))


def ask(line: Line, request: bytes, method: str) -> Answered:
    """Send a whole request to the hub, and return the whole answer."""
    with closing(connect(line)) as hub:
        hub.sendall(request)
        with closing(http.client.HTTPResponse(hub, method=method)) as response:
            response.begin()
            body = response.read()
            ours = {"content-length", "transfer-encoding", "connection"}
            kept = [(name, value) for name, value in response.getheaders() if name.lower() not in ours]
            return Answered(response.status, kept, body)


def _reset(end: socket.socket) -> None:
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


# What is asked


def is_batch(visit: Visit) -> bool:
    return visit.method == "POST" and visit.path.endswith("/events")


def is_claim(visit: Visit) -> bool:
    return visit.method in ("PUT", "POST") and "/producers" in visit.path


def is_question(visit: Visit) -> bool:
    """Return whether the request asks for the progress of a producer."""
    return visit.method == "GET" and "/producers/" in visit.path and "/sequences/" not in visit.path


# Fates


def passed(visit: Visit) -> None:
    try:
        answer = visit.forward()
    except (OSError, http.client.HTTPException):  # The hub is not there, or has died.
        visit.hang_up()
        raise
    visit.answer(answer)


def lost(visit: Visit) -> None:
    """The request does not reach the hub, and the client's connection breaks."""
    visit.body()
    visit.hang_up()


def unanswered(visit: Visit) -> None:
    """The hub executes the request, and the client's connection breaks."""
    visit.forward()
    visit.hang_up()


def stored_then(fate: Fate) -> Fate:
    """Return a fate: the hub executes the request, then *fate* befalls its answer."""

    def meet(visit: Visit) -> None:
        visit.forward()
        fate(visit)

    return meet


def ignored(visit: Visit) -> None:
    """The request does not reach the hub, and the client hears nothing."""
    visit.body()
    visit.wait_for_the_client_to_give_up()


def swallowed(visit: Visit) -> None:
    """The hub executes the request, and the client hears nothing."""
    visit.forward()
    visit.wait_for_the_client_to_give_up()


def twice(visit: Visit) -> None:
    """A gateway sends the request again by itself; the client gets the second answer."""
    visit.forward()
    visit.answer(visit.forward())


def cut(visit: Visit) -> None:
    """Both connections are reset in the middle of the body."""
    visit.cut()


def answering(status: int, body: bytes = b"", **headers: str) -> Fate:
    """Return a fate: a gateway answers, and the hub hears nothing."""
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return lambda visit: visit.answer(Answered(status, named, body))


def refusing(status: int, code: str, **fields: Any) -> Fate:
    """Return a fate: the answer is a problem of that name, as the hub gives it."""
    problem = {"type": f"urn:penstock:problem:{code}", "title": code, "status": status, "detail": code, **fields}
    return answering(status, json.dumps(problem).encode(), content_type="application/problem+json")


class Stuck:
    """A fate: the request is stuck on its way, and the client's connection breaks; it can be delivered later."""

    def __init__(self) -> None:
        self._visit: Visit | None = None

    def __call__(self, visit: Visit) -> None:
        visit.body()
        self._visit = visit
        visit.hang_up()

    def deliver(self) -> tuple[int, dict[str, Any]]:
        """Deliver the request to the hub now; return the status and the body of the answer."""
        assert self._visit is not None, "nothing is stuck"
        answer = self._visit.forward()
        return answer.status, json.loads(answer.body)


class Held:
    """A fate: the request is held until it is let go, after the hub has executed it, or *before*."""

    def __init__(self, *, before: bool = False) -> None:
        self.reached = threading.Event()
        """Set when the request is held."""
        self._before = before
        self._let_go = threading.Event()
        self._then: Fate | None = None

    def __call__(self, visit: Visit) -> None:
        answer = None if self._before else visit.forward()
        visit.body()
        self.reached.set()
        while not self._let_go.wait(0.005) and not visit.line.ending.is_set():
            pass
        if self._then is not None:
            self._then(visit)
        else:
            visit.answer(answer or visit.forward())

    def wait(self) -> None:
        """Wait until it is held."""
        assert self.reached.wait(PATIENCE_SECONDS), "nothing has come"

    def let_go(self, then: Fate | None = None) -> None:
        """Let it go on, by default as if nothing had been."""
        self._then = then
        self._let_go.set()


def hung_up(visit: Visit) -> None:
    """The client's connection breaks."""
    visit.hang_up()
