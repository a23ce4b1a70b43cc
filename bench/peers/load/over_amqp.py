"""Publishes to RabbitMQ and consumes from it: bare sockets, aio-pika for quorum queues, rstream for streams."""

import asyncio
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import aio_pika
import msgspec
import rstream
import uvloop

from bench.events import event
from bench.peers.load.numbers import number_in
from bench.peers.load.works import BATCH, WARM_UP, Session, Works, connect, publish_works, serve_works

QUEUES: Final = ("events", "paced", "log")
USER: Final = "guest"
_METHOD, _HEADER, _BODY = 1, 2, 3
_CONFIRM_BYTES: Final = 21
_ACK: Final = (60, 80)
_PERSISTENT: Final = b"\x10\0\2"
"""The one property that a message has: it is to be written to disk."""


class AmqpSession:
    """Publishes to a queue by a channel of AMQP 0-9-1 with publisher confirms."""

    def __init__(self, port: int, queue: str) -> None:
        self.socket: socket.socket = connect(port)
        self._queue = queue.encode()
        self._confirmed = 0
        self._shake_hands()

    def request(self, numbers: Sequence[int]) -> bytes:
        method = struct.pack("!HHH", 60, 40, 0) + _short(b"") + _short(self._queue) + b"\0"
        return b"".join(self._message(method, event(number).encode()) for number in numbers)

    def is_answered(self, received: bytes, events: int) -> bool:
        """Count confirms: each is of one message, or of all up to one."""
        up_to, single = self._confirmed, set[int]()
        for place in range(0, len(received) - _CONFIRM_BYTES + 1, _CONFIRM_BYTES):
            kind, _, _, *method, tag, of_all, _ = struct.unpack_from("!BHIHHQBB", received, place)
            if (kind, *method) != (_METHOD, *_ACK):
                raise RuntimeError(received[place:].decode(errors="replace"))
            if of_all:
                up_to = max(up_to, tag)
            else:
                single.add(tag)
        if up_to - self._confirmed + sum(tag > up_to for tag in single) < events:
            return False
        self._confirmed += events
        return True

    def _message(self, method: bytes, body: bytes) -> bytes:
        header = struct.pack("!HHQ", 60, 0, len(body)) + _PERSISTENT
        return _frame(_METHOD, 1, method) + _frame(_HEADER, 1, header) + _frame(_BODY, 1, body)

    def _shake_hands(self) -> None:
        self.socket.sendall(b"AMQP\0\0\x09\1")
        self._expect(10, 10)
        answer = f"\0{USER}\0{USER}".encode()
        no_properties = struct.pack("!I", 0)
        self._call(0, 10, 11, no_properties + _short(b"PLAIN") + _long(answer) + _short(b"en_US"))
        self._expect(10, 30)
        self._call(0, 10, 31, struct.pack("!HIH", 2047, 131072, 0))  # No heartbeats.
        self._call(0, 10, 40, _short(b"/") + _short(b"") + b"\0")
        self._expect(10, 41)
        self._call(1, 20, 10, _short(b""))
        self._expect(20, 11)
        self._call(1, 85, 10, b"\0")
        self._expect(85, 11)

    def _call(self, channel: int, kind: int, method: int, arguments: bytes) -> None:
        self.socket.sendall(_frame(_METHOD, channel, struct.pack("!HH", kind, method) + arguments))

    def _expect(self, kind: int, method: int) -> None:
        _, _, size = struct.unpack("!BHI", self._receive(7))
        payload = self._receive(size + 1)
        if struct.unpack_from("!HH", payload) != (kind, method):
            raise RuntimeError(payload.decode(errors="replace"))

    def _receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            more = self.socket.recv(size - len(received))
            if not more:
                raise RuntimeError("the server has closed the connection")
            received += more
        return received


def make(port: int, stream_port: int, kind: str, events: int, *, follows: bool = False) -> Works:
    """Return the works of `quorum` queues or `stream`s, with a log of so many *events*."""

    def open_session() -> Session:
        return AmqpSession(port, "events")

    def open_paced_session() -> Session:
        return AmqpSession(port, "paced")

    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(_with_channel(port, lambda channel: _declare(channel, kind)))
    if follows:
        following = _follow_queue(port) if kind == "quorum" else _follow_stream(stream_port)
        follow = loop.run_until_complete(following)
        return {"follow": lambda last, count: {"at": loop.run_until_complete(follow(last, count))}}
    publishing = {**publish_works(open_session), "pace": publish_works(open_paced_session)["pace"]}
    if kind == "quorum":
        client = {"client": lambda seconds: uvloop.run(_with_channel(port, lambda each: _send_dicts(each, seconds)))}
        return publishing | client
    return {
        **publishing,
        "fill": lambda events: uvloop.run(_fill(stream_port, events)),
        "client": lambda seconds: uvloop.run(_send_dicts_to_stream(stream_port, seconds)),
        "decode": lambda seconds: uvloop.run(_read_decoded(stream_port, events, seconds)),
    }


async def _with_channel(port: int, use: Callable[[Any], Awaitable[Any]]) -> Any:
    connection = await aio_pika.connect(port=port)
    async with connection, connection.channel() as channel:
        return await use(channel)


async def _declare(channel: Any, kind: str) -> None:
    for queue in QUEUES:
        await channel.declare_queue(queue, durable=True, arguments={"x-queue-type": kind})


async def _send_dicts(channel: Any, seconds: float) -> dict[str, float]:
    dicts = [msgspec.json.decode(event(number)) for number in range(BATCH)]

    async def send(each: Any) -> None:
        message = aio_pika.Message(msgspec.json.encode(each), delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, "events")

    async def send_all() -> int:
        await asyncio.gather(*(send(each) for each in dicts))
        return BATCH

    return await _repeat(send_all, seconds)


class StreamSender:
    """Sends batches to a stream and waits until all their messages are confirmed."""

    def __init__(self, producer: Any, stream: str) -> None:
        self._producer, self._stream = producer, stream
        self._left = 0
        self._confirmed = asyncio.Event()

    async def send(self, events: Sequence[bytes]) -> int:
        self._left = len(events)
        self._confirmed.clear()
        await self._producer.send_batch(self._stream, events, on_publish_confirm=self._confirm)
        await self._confirmed.wait()
        return len(events)

    def _confirm(self, status: Any) -> None:
        assert status.is_confirmed
        self._left -= 1
        if not self._left:
            self._confirmed.set()


def _stream_producer(port: int) -> Any:
    return rstream.Producer("127.0.0.1", port, username=USER, password=USER)


async def _send_dicts_to_stream(port: int, seconds: float) -> dict[str, float]:
    dicts = [msgspec.json.decode(event(number)) for number in range(BATCH)]
    async with _stream_producer(port) as producer:
        sender = StreamSender(producer, "events")
        return await _repeat(lambda: sender.send([msgspec.json.encode(each) for each in dicts]), seconds)


async def _fill(port: int, events: int) -> None:
    async with _stream_producer(port) as producer:
        sender = StreamSender(producer, "log")
        for first in range(0, events, BATCH):
            await sender.send([event(number).encode() for number in range(first, first + BATCH)])


async def _read_decoded(port: int, events: int, seconds: float) -> dict[str, float]:
    """Read from the first event for the whole time, or to the last event if that comes before."""
    read, done = 0, asyncio.Event()
    started, elapsed = 0.0, 0.0

    def take(data: bytes, _: Any) -> None:
        nonlocal read, started, elapsed
        msgspec.json.decode(data)
        read += 1
        now = time.perf_counter()
        if read == 1:
            started = now
        if not done.is_set() and (read == events or now - started > seconds):
            elapsed = now - started
            done.set()

    consumer = rstream.Consumer("127.0.0.1", port, username=USER, password=USER)
    async with consumer:
        first = rstream.ConsumerOffsetSpecification(rstream.OffsetType.FIRST)
        await consumer.subscribe("log", take, offset_specification=first)
        await done.wait()
        counted = read
    return {"rate": (counted - 1) / elapsed}


async def _follow_queue(port: int) -> Callable[[int, int], Awaitable[dict[int, int]]]:
    connection = await aio_pika.connect(port=port)
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=1000)
    queue = await channel.get_queue("paced")
    return await _follow(queue.consume, lambda message: message.body)


async def _follow_stream(port: int) -> Callable[[int, int], Awaitable[dict[int, int]]]:
    consumer = rstream.Consumer("127.0.0.1", port, username=USER, password=USER)
    await consumer.start()
    following = rstream.ConsumerOffsetSpecification(rstream.OffsetType.NEXT)

    async def consume(take: Callable[[Any], Awaitable[None]]) -> None:
        async def take_of_stream(data: bytes, _: Any) -> None:
            await take(data)

        await consumer.subscribe("paced", take_of_stream, offset_specification=following)

    return await _follow(consume, lambda data: data)


async def _follow(
    consume: Callable[[Callable[[Any], Awaitable[None]]], Awaitable[Any]], body_of: Callable[[Any], bytes]
) -> Callable[[int, int], Awaitable[dict[int, int]]]:
    seen: dict[int, int] = {}
    arrived = asyncio.Event()

    async def take(message: Any) -> None:
        seen[number_in(body_of(message))] = time.monotonic_ns()
        arrived.set()
        if hasattr(message, "ack"):
            await message.ack()

    async def follow(last: int, count: int) -> dict[int, int]:
        while last not in seen or len(seen) < count:
            arrived.clear()
            await arrived.wait()
        taken = dict(seen)
        seen.clear()
        return taken

    await consume(take)
    return follow


async def _repeat(step: Callable[[], Awaitable[int]], seconds: float) -> dict[str, float]:
    for measured in (WARM_UP * seconds, seconds):
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < measured:
            count += await step()
        elapsed = time.perf_counter() - started
    return {"rate": count / elapsed}


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack("!BHI", kind, channel, len(payload)) + payload + b"\xce"


def _short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def _long(text: bytes) -> bytes:
    return struct.pack("!I", len(text)) + text


if __name__ == "__main__":
    serve_works(make)
