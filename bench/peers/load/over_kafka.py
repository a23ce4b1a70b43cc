"""Publishes to Kafka and reads from it: confluent-kafka, and bare sockets for fetching."""

import struct
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from confluent_kafka import OFFSET_END, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.events import EVENT_BYTES, event
from bench.peers.load.numbers import number_in
from bench.peers.load.works import BATCH, WARM_UP, Works, connect, read_works, repeat, serve_works, summarise

PAGE: Final = 1000
TOPICS: Final = ("events", "paced", "log")
TIMEOUT: Final = 60.0
_FETCH: Final = 1
_FETCH_VERSION: Final = 4
_BATCH_BYTES: Final = PAGE * (EVENT_BYTES + 12) + 100
"""The largest size of a record batch with the events of a page. No more than one whole batch fits into it."""


class KafkaReader:
    """Fetches record batches, as they were published in pages, and looks at no more than their heads."""

    def __init__(self, port: int, events: int) -> None:
        self._socket = connect(port)
        self._events, self._offset = events, 0
        self._buffer = memoryview(bytearray(2 * _BATCH_BYTES))

    def read_page(self) -> int:
        if self._offset >= self._events:
            self._offset = 0
        self._socket.sendall(_fetch_request("log", self._offset))
        [size] = struct.unpack("!i", self._receive(4))
        records = _records_in(self._receive(size))
        start, place = self._offset, 0
        while place + 61 <= len(records):
            base, length = struct.unpack_from("!qi", records, place)
            if place + 12 + length > len(records):
                break  # The end of what was fetched need not be that of a batch.
            [last] = struct.unpack_from("!i", records, place + 23)
            self._offset = base + last + 1
            place += 12 + length
        if self._offset == start:
            raise RuntimeError("nothing was fetched")
        return self._offset - start

    def _receive(self, size: int) -> memoryview:
        received = self._buffer[:size]
        place = 0
        while place < size:
            more = self._socket.recv_into(received[place:])
            if not more:
                raise RuntimeError("the server has closed the connection")
            place += more
        return received


def make(port: int, events: int, *, follows: bool = False) -> Works:
    """Return the works of a broker, with a log of so many *events*."""
    address = f"127.0.0.1:{port}"
    _create_topics(address)
    if follows:
        return {"follow": _follow(address)}
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "acks": "all"})
    batches = _batch_producer(address)
    dicts = [msgspec.json.decode(event(number)) for number in range(BATCH)]
    encoded = [event(number).encode() for number in range(BATCH)]
    return {
        **read_works(lambda: KafkaReader(port, events)),
        "single": lambda writers, seconds: _publish_single(producer, writers, seconds),
        "batches": lambda seconds: repeat(lambda: _publish_all(batches, "events", encoded), seconds),
        "client": lambda seconds: repeat(
            lambda: _publish_all(batches, "events", [msgspec.json.encode(each) for each in dicts]), seconds
        ),
        "pace": lambda first, count, per_second: _publish_paced(producer, first, count, per_second),
        "fill": lambda events: _fill(batches, events),
        "decode": lambda seconds: _read_decoded(address, events, seconds),
    }


def _create_topics(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 3})
    for created in admin.create_topics([NewTopic(topic, 1, 1) for topic in TOPICS]).values():
        error = created.exception(TIMEOUT)
        if error is not None and error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise error


def _batch_producer(address: str) -> Any:
    """Return a producer that sends a thousand events as one record batch: it waits for them unless it is flushed."""
    sizes = {"batch.num.messages": BATCH, "batch.size": 2 * _BATCH_BYTES, "linger.ms": 100}
    return Producer({"bootstrap.servers": address, "acks": "all", **sizes})


def _raise_if_failed(error: Any, message: Message) -> None:
    del message
    if error is not None:
        raise RuntimeError(str(error))


def _publish_all(producer: Any, topic: str, events: Sequence[bytes]) -> int:
    for each in events:
        producer.produce(topic, each, on_delivery=_raise_if_failed)
    producer.flush()
    return len(events)


def _fill(producer: Any, events: int) -> None:
    for first in range(0, events, BATCH):
        _publish_all(producer, "log", [event(number).encode() for number in range(first, first + BATCH)])


def _publish_single(producer: Any, writers: int, seconds: float) -> dict[str, float]:
    """Publish by *writers* that share the producer, and of which each waits for its last event to be acknowledged."""
    payload = event(0).encode()
    until, taken, under_way = 0.0, list[float](), 0

    def begin() -> None:
        nonlocal under_way
        started = time.perf_counter()

        def answer(error: Any, message: Message) -> None:
            nonlocal under_way
            _raise_if_failed(error, message)
            now = time.perf_counter()
            taken.append(now - started)
            under_way -= 1
            if now < until:
                begin()

        under_way += 1
        producer.produce("events", payload, on_delivery=answer)

    for measured in (WARM_UP * seconds, seconds):
        taken.clear()
        started = time.perf_counter()
        until = started + measured
        for _ in range(writers):
            begin()
        while under_way:
            producer.poll(1)
        elapsed = time.perf_counter() - started
    return summarise(taken) | {"rate": len(taken) / elapsed}


def _publish_paced(producer: Any, first: int, count: int, per_second: float) -> dict[str, Any]:
    sent: dict[int, int] = {}
    started = time.perf_counter()
    for number in range(first, first + count):
        while (wait := started + (number - first) / per_second - time.perf_counter()) > 0:
            producer.poll(wait)
        sent[number] = time.monotonic_ns()
        producer.produce("paced", event(number).encode(), on_delivery=_raise_if_failed)
    producer.flush()
    return {"at": sent}


def _consumer(address: str) -> Any:
    return Consumer({"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False})


def _read_decoded(address: str, events: int, seconds: float) -> dict[str, float]:
    """Read from the first event for the whole time, or to the last event if that comes before."""
    consumer = _consumer(address)
    consumer.assign([TopicPartition("log", 0, 0)])
    first = consumer.consume(PAGE, TIMEOUT)
    count, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds and len(first) + count < events:
        messages = consumer.consume(min(PAGE, events - len(first) - count), TIMEOUT)
        for message in messages:
            msgspec.json.decode(message.value())
        count += len(messages)
    consumer.close()
    return {"rate": count / elapsed}


def _follow(address: str) -> Any:
    consumer = _consumer(address)
    consumer.assign([TopicPartition("paced", 0, OFFSET_END)])
    consumer.poll(2)  # It has asked for the end of the log when this is over.

    def follow(last: int, count: int) -> dict[str, Any]:
        seen: dict[int, int] = {}
        while last not in seen or len(seen) < count:
            message = consumer.poll(TIMEOUT)
            if message is None or message.error():
                raise RuntimeError(f"events that never came: {message and message.error()}")
            seen[number_in(message.value())] = time.monotonic_ns()
        return {"at": seen}

    return follow


def _fetch_request(topic: str, offset: int) -> bytes:
    name = topic.encode()
    partition = struct.pack("!iqi", 0, offset, _BATCH_BYTES)
    body = struct.pack("!iiiibi", -1, 500, 1, _BATCH_BYTES, 0, 1)
    body += struct.pack("!h", len(name)) + name + struct.pack("!i", 1) + partition
    head = struct.pack("!hhih", _FETCH, _FETCH_VERSION, 1, -1)
    return struct.pack("!i", len(head) + len(body)) + head + body


def _records_in(answer: memoryview) -> memoryview:
    """Return the records of an answer about one partition: correlation, throttling, topic, partition, records."""
    [name_length] = struct.unpack_from("!h", answer, 12)
    place = 14 + name_length + 4
    _, error, _, _, aborted = struct.unpack_from("!ihqqi", answer, place)
    if error:
        raise RuntimeError(f"fetching failed with code {error}")
    place += 26 + 16 * max(0, aborted)
    [size] = struct.unpack_from("!i", answer, place)
    return answer[place + 4 : place + 4 + size]


if __name__ == "__main__":
    serve_works(make)
