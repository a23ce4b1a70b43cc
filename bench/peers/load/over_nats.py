"""Publishes to NATS JetStream and reads from it: bare sockets, and nats-py."""

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count as count_up
from typing import Any, Final

import msgspec
import nats
import uvloop
from nats.js.api import DeliverPolicy, StreamConfig
from nats.js.client import JetStreamContext

from bench.events import event
from bench.peers.load.numbers import number_in
from bench.peers.load.works import (
    BATCH,
    WARM_UP,
    Reader,
    Session,
    Works,
    connect,
    fill_log,
    publish_works,
    read_works,
    serve_works,
)

PAGE: Final = 1000
STREAMS: Final = ("events", "paced", "log")
_inboxes: Final = count_up(1)
_batches: Final = count_up(1)


class NatsConnection:
    """A connection with an inbox of its own."""

    def __init__(self, port: int) -> None:
        self.socket: socket.socket = connect(port)
        self.inbox = f"_INBOX.bench{id(self)}.{next(_inboxes)}"
        self.socket.sendall(f'CONNECT {{"verbose":false,"headers":true}}\r\nSUB {self.inbox} 1\r\nPING\r\n'.encode())
        received = b""
        while b"PONG\r\n" not in received:
            more = self.socket.recv(1 << 16)
            if not more or b"-ERR" in received:
                raise RuntimeError(received.decode())
            received += more

    def message(self, subject: str, payload: str) -> bytes:
        """Return the bytes that publish a message, whose answer comes to the inbox."""
        return f"PUB {subject} {self.inbox} {len(payload)}\r\n{payload}\r\n".encode()


class NatsSession:
    """Publishes to a stream.

    Several events are an atomic batch, which is acknowledged when all are stored, unless *atomic* is false. The stream
    keeps the headers of batches.
    """

    def __init__(self, port: int, stream: str, *, atomic: bool = True) -> None:
        self._connection = NatsConnection(port)
        self.socket = self._connection.socket
        self._stream, self._atomic = stream, atomic

    def request(self, numbers: Sequence[int]) -> bytes:
        if not self._atomic or len(numbers) == 1:
            return b"".join(self._connection.message(self._stream, event(number)) for number in numbers)
        batch = next(_batches)
        parts = []
        for sequence, number in enumerate(numbers, 1):
            is_last = sequence == len(numbers)
            head = f"NATS/1.0\r\nNats-Batch-Id: {id(self)}.{batch}\r\nNats-Batch-Sequence: {sequence}\r\n"
            head += "Nats-Batch-Commit: 1\r\n\r\n" if is_last else "\r\n"
            inbox = f"{self._connection.inbox} " if is_last else ""
            payload = event(number)
            parts.append(f"HPUB {self._stream} {inbox}{len(head)} {len(head) + len(payload)}\r\n{head}{payload}\r\n")
        return "".join(parts).encode()

    def is_answered(self, received: bytes, events: int) -> bool:
        if b'"error"' in received or b"-ERR" in received:
            raise RuntimeError(received[:1000].decode())
        # The server asks once whether the client is there. It does not mind that it gets no answer for some minutes.
        return received.count(b"\n") - received.count(b"PING\r\n") >= (2 if self._atomic else 2 * events)


class NatsReader:
    """Pulls pages by a consumer that acknowledges nothing."""

    def __init__(self, port: int, events: int) -> None:
        self._connection = NatsConnection(port)
        self._events, self._place = events, 0
        self._next = b""
        self._buffer = bytearray(1 << 20)

    def read_page(self) -> int:
        if self._place % self._events == 0:
            self._place = 0
            self._create_consumer()
        self._connection.socket.sendall(self._next)
        lines = 0
        while lines < 2 * PAGE:  # A message is two lines, and no event has a line's end in it.
            size = self._connection.socket.recv_into(self._buffer)
            if not size:
                raise RuntimeError("the server has closed the connection")
            lines += self._buffer.count(b"\n", 0, size) - self._buffer.count(b"PING\r\n", 0, size)
        self._place += PAGE
        return PAGE

    def _create_consumer(self) -> None:
        config = {"ack_policy": "none", "deliver_policy": "all", "replay_policy": "instant", "mem_storage": True}
        config_text = json.dumps({"stream_name": "log", "config": config})
        self._connection.socket.sendall(self._connection.message("$JS.API.CONSUMER.CREATE.log", config_text))
        received = b""
        while not received.endswith(b"}\r\n"):
            received += self._connection.socket.recv(1 << 16)
        answer = json.loads(received[received.index(b"{") :])
        subject = f"$JS.API.CONSUMER.MSG.NEXT.log.{answer['name']}"
        self._next = self._connection.message(subject, json.dumps({"batch": PAGE}))


def make(port: int, events: int, *, follows: bool = False) -> Works:
    """Return the works of a server, with a log of so many *events*."""

    def open_session() -> Session:
        return NatsSession(port, "events")

    def open_reader() -> Reader:
        return NatsReader(port, events)

    def open_paced_session() -> Session:
        return NatsSession(port, "paced")

    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(_with_client(port, _create_streams))
    if follows:
        return {"follow": _follow(loop, port)}
    return {
        **publish_works(open_session),
        **read_works(open_reader),
        "pace": publish_works(open_paced_session)["pace"],
        "fill": lambda events: fill_log(lambda: NatsSession(port, "log", atomic=False), events),
        "client": lambda seconds: uvloop.run(_with_client(port, lambda client: _publish_dicts(client, seconds))),
        "decode": lambda seconds: uvloop.run(_with_client(port, lambda client: _read_decoded(client, events, seconds))),
    }


async def _with_client(port: int, use: Callable[[JetStreamContext], Awaitable[Any]]) -> Any:
    client = await nats.connect(f"nats://127.0.0.1:{port}")
    try:
        return await use(client.jetstream())
    finally:
        await client.close()


async def _create_streams(client: JetStreamContext) -> None:
    for stream in STREAMS:
        await client.add_stream(StreamConfig(name=stream, subjects=[stream], allow_atomic=True))


async def _publish_dicts(client: JetStreamContext, seconds: float) -> dict[str, float]:
    dicts = [msgspec.json.decode(event(number)) for number in range(BATCH)]
    for measured in (WARM_UP * seconds, seconds):
        published, started = 0, time.perf_counter()
        while time.perf_counter() - started < measured:
            acknowledgements = [await client.publish_async("events", msgspec.json.encode(each)) for each in dicts]
            await asyncio.gather(*acknowledgements)
            published += BATCH
        elapsed = time.perf_counter() - started
    return {"rate": published / elapsed}


async def _read_decoded(client: JetStreamContext, events: int, seconds: float) -> dict[str, float]:
    for measured in (WARM_UP * seconds, seconds):
        read, started = 0, time.perf_counter()
        while time.perf_counter() - started < measured:
            messages = await client.subscribe("log", ordered_consumer=True)
            for _ in range(events):
                message = await messages.next_msg()
                msgspec.json.decode(message.data)
                read += 1
                if read % PAGE == 0 and time.perf_counter() - started >= measured:
                    break
            await messages.unsubscribe()
        elapsed = time.perf_counter() - started
    return {"rate": read / elapsed}


def _follow(loop: asyncio.AbstractEventLoop, port: int) -> Any:
    async def subscribe() -> Any:
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        context = client.jetstream()
        return await context.subscribe("paced", ordered_consumer=True, deliver_policy=DeliverPolicy.NEW)

    async def take(last: int, count: int) -> dict[int, int]:
        seen: dict[int, int] = {}
        while last not in seen or len(seen) < count:
            message = await messages.next_msg(timeout=60)
            seen[number_in(message.data)] = time.monotonic_ns()
        return seen

    messages = loop.run_until_complete(subscribe())
    return lambda last, count: {"at": loop.run_until_complete(take(last, count))}


if __name__ == "__main__":
    serve_works(make)
