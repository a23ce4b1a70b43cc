"""The work that peers are given over bare sockets: sessions publish events, readers take pages."""

import asyncio
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from statistics import quantiles
from typing import Any, Final, Protocol, cast

import uvloop

from bench.load.program import Run, serve

WARM_UP: Final = 0.25
"""The part of the measured time for which each work runs before it is measured."""
BATCH: Final = 1000
PACED_SESSIONS: Final = 32


class Session(Protocol):
    """A connection over which one request is under way at any time."""

    socket: socket.socket

    def request(self, numbers: Sequence[int]) -> bytes:
        """Return the bytes that publish the events of these numbers; they can be sent again and again."""

    def is_answered(self, received: bytes, events: int) -> bool:
        """Return whether *received* acknowledges all *events* of the request.

        Raises:
            RuntimeError: the server has refused it.
        """


class Reader(Protocol):
    """A reader of a log, from its first event to its last one, then from the first again."""

    def read_page(self) -> int:
        """Take the next page, and return how many events it has."""


OpenSession = Callable[[], Session]
OpenReader = Callable[[], Reader]
Works = Mapping[str, Run]


def serve_works(make: Callable[..., Works]) -> None:
    """Be a program that carries out each of its works by name."""

    def make_run(**given: Any) -> Run:
        works = make(**given)
        return lambda work, **asked: works[work](**asked)

    serve(make_run)


def publish_works(open_session: OpenSession) -> Works:
    """Return the works of publishing over sessions."""
    return {
        "single": lambda writers, seconds: publish_single(open_session, writers, seconds),
        "batches": lambda seconds: publish_batches(open_session, seconds),
        "pace": lambda first, count, per_second: publish_paced(open_session, first, count, per_second),
        "fill": lambda events: fill_log(open_session, events),
    }


def read_works(open_reader: OpenReader) -> Works:
    """Return the works of readers that do not look into events."""
    return {
        "read": lambda seconds: read_pages(open_reader, 1, seconds),
        "readers": lambda readers, seconds: read_pages(open_reader, readers, seconds),
    }


class Exchanges(asyncio.Protocol):
    """Requests and answers of one session, one after the other."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._received = b""
        self._events = 0
        self._when_answered: Callable[[], None] = lambda: None
        self._transport: asyncio.Transport
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def send(self, request: bytes, events: int, when_answered: Callable[[], None]) -> None:
        self._events, self._when_answered = events, when_answered
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        try:
            if not self._session.is_answered(self._received, self._events):
                return
        except RuntimeError as error:
            self._fail(error)
            return
        self._received = b""
        self._when_answered()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or RuntimeError("the server has closed the connection"))

    def close(self) -> None:
        self.failure.cancel()
        self._transport.close()

    def _fail(self, error: Exception) -> None:
        if not self.failure.done():
            self.failure.set_exception(error)


def publish_single(open_session: OpenSession, writers: int, seconds: float) -> dict[str, float]:
    """Publish single events over *writers* sessions, each of which sends its next one when the last is acknowledged."""

    async def publish() -> dict[str, float]:
        sessions = [open_session() for _ in range(writers)]
        exchanges = [await _take_over(session) for session in sessions]
        requests = [session.request([number]) for number, session in enumerate(sessions)]
        for measured in (WARM_UP * seconds, seconds):
            taken: list[float] = []
            started = time.perf_counter()
            loops = [
                _publish_in_loop(each, request, started + measured, taken)
                for each, request in zip(exchanges, requests, strict=True)
            ]
            await _gather_unless_failed(loops, exchanges)
            elapsed = time.perf_counter() - started
        for each in exchanges:
            each.close()
        return summarise(taken) | {"rate": len(taken) / elapsed}

    return uvloop.run(publish())


def publish_paced(open_session: OpenSession, first: int, count: int, per_second: float) -> dict[str, Any]:
    """Publish numbered events at a given rate; return by number when each set out, in nanoseconds.

    An event waits if all sessions are in use: it has set out all the same.
    """

    async def publish() -> dict[int, int]:
        loop = asyncio.get_running_loop()
        sessions = [open_session() for _ in range(PACED_SESSIONS)]
        exchanges = [await _take_over(session) for session in sessions]
        idle, waiting = deque(range(PACED_SESSIONS)), deque[int]()
        sent: dict[int, int] = {}
        left, all_answered = count, loop.create_future()

        def send(number: int, place: int) -> None:
            exchanges[place].send(sessions[place].request([number]), 1, lambda: answer(place))

        def answer(place: int) -> None:
            nonlocal left
            left -= 1
            if waiting:
                send(waiting.popleft(), place)
            else:
                idle.append(place)
            if not left:
                all_answered.set_result(None)

        async def pace() -> None:
            started = loop.time()
            for number in range(first, first + count):
                await asyncio.sleep(max(0.0, started + (number - first) / per_second - loop.time()))
                sent[number] = time.monotonic_ns()
                if idle:
                    send(number, idle.popleft())
                else:
                    waiting.append(number)
            await all_answered

        await _gather_unless_failed([pace()], exchanges)
        for each in exchanges:
            each.close()
        return sent

    return {"at": uvloop.run(publish())}


def publish_batches(open_session: OpenSession, seconds: float, batch: int = BATCH) -> dict[str, float]:
    """Publish batches one after the other, over one session."""
    session = open_session()
    request = session.request(range(batch))
    for measured in (WARM_UP * seconds, seconds):
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < measured:
            exchange(session, request, batch)
            count += batch
        elapsed = time.perf_counter() - started
    session.socket.close()
    return {"rate": count / elapsed}


def fill_log(open_session: OpenSession, events: int) -> None:
    """Publish numbered events in batches, for readers."""
    session = open_session()
    for first in range(0, events, BATCH):
        exchange(session, session.request(range(first, min(first + BATCH, events))), min(BATCH, events - first))
    session.socket.close()


def exchange(session: Session, request: bytes, events: int) -> None:
    """Send a request over a session that blocks, and wait for its answer."""
    session.socket.sendall(request)
    received = b""
    while not session.is_answered(received, events):
        more = session.socket.recv(1 << 18)
        if not more:
            raise RuntimeError("the server has closed the connection")
        received += more


def read_pages(open_reader: OpenReader, readers: int, seconds: float) -> dict[str, float]:
    """Read the log by *readers* at the same time, a thread and a connection each; return what they take together."""
    opened = [open_reader() for _ in range(readers)]
    counts = [0] * readers
    failures: list[Exception] = []
    begin = threading.Barrier(readers + 1)

    def read(place: int) -> None:
        reader = opened[place]
        try:
            reader.read_page()
            begin.wait()
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                counts[place] += reader.read_page()
        except Exception as error:  # noqa: BLE001  (it is raised where it can be seen)
            failures.append(error)
            begin.abort()

    threads = [threading.Thread(target=read, args=(place,)) for place in range(readers)]
    for thread in threads:
        thread.start()
    try:
        begin.wait()
    except threading.BrokenBarrierError:
        raise failures[0] from None
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return {"rate": sum(counts) / (time.perf_counter() - started)}


def repeat(step: Callable[[], int], seconds: float) -> dict[str, float]:
    """Take a step again and again; each returns how many events it has handled."""
    for measured in (WARM_UP * seconds, seconds):
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < measured:
            count += step()
        elapsed = time.perf_counter() - started
    return {"rate": count / elapsed}


def summarise(taken: Sequence[float]) -> dict[str, float]:
    """Return the median and the 99th percentile of times in seconds, in milliseconds."""
    parts = quantiles(taken, n=100) if len(taken) > 1 else [*taken] * 99
    return {"p50": 1000 * parts[49], "p99": 1000 * parts[98]}


def connect(port: int) -> socket.socket:
    """Return a connection that sends at once."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


async def _take_over(session: Session) -> Exchanges:
    """Hand a session that is set up to the event loop."""
    session.socket.setblocking(False)
    exchanges = Exchanges(session)
    await asyncio.get_running_loop().create_connection(lambda: exchanges, sock=session.socket)
    return exchanges


def _publish_in_loop(exchanges: Exchanges, request: bytes, until: float, taken: list[float]) -> asyncio.Future[None]:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    started = time.perf_counter()

    def answer() -> None:
        nonlocal started
        now = time.perf_counter()
        taken.append(now - started)
        if now < until:
            started = now
            exchanges.send(request, 1, answer)
        else:
            done.set_result(None)

    exchanges.send(request, 1, answer)
    return done


async def _gather_unless_failed(awaited: Sequence[Any], exchanges: Sequence[Exchanges]) -> None:
    work: asyncio.Future[Any] = asyncio.gather(*awaited)
    waited: list[asyncio.Future[Any]] = [work, *(each.failure for each in exchanges)]
    done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    for each in done:
        each.result()
