"""Records of Kafka: each partition of a topic is a tranche, whose positions are Kafka's offsets."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from penstock.client.log.starting import start_now
from penstock.core.events.event import stream_name
from penstock.core.log.start import Start, check_start
from penstock.errors import BadParameter, EventsLost, InvalidRecord, RequirementMissing, Unavailable
from penstock.processing.engine.tranche import Batch, Position
from penstock.processing.parameters import check_flag, check_kind
from penstock.processing.sources.feed_position import decode_tranche, encode_tranche
from penstock.processing.sources.source import Closable, Exclusive, ReadRequest
from penstock.processing.sources.spans import events_in_span
from penstock.processing.stream_event import StreamEvent

Layout: TypeAlias = Literal["raw", "stream-span", "summary"]
LAYOUTS: Final[tuple[Layout, ...]] = get_args(Layout)
_SHOWN_CHARS: Final = 200
_encode: Final = msgspec.json.encode


class RecordEvents:
    """Converts records to events.

    Args:
        layout: The format of a record.
        is_hashed: True if records of one key are always in the same partition.
    """

    def __init__(self, layout: Layout, *, is_hashed: bool) -> None:
        self._layout = layout
        self._is_hashed = is_hashed

    def make(self, record: Any) -> list[StreamEvent]:
        """Return the events of a record, as `confluent_kafka.Message`. With spans, a record without a value has none.

        Raises:
            InvalidRecord: it is not the StreamSpan or summary of the layout; names the record.
        """
        name, partition, offset = record.topic(), record.partition(), record.offset()
        headers = {
            name: value.decode(errors="replace") for name, value in record.headers() or () if value is not None
        } | {"kafka-topic": name, "kafka-partition": str(partition), "kafka-offset": str(offset)}
        tranche, received, value = encode_tranche(name, partition), _find_received(record), record.value()
        if self._layout == "raw":
            key = None if record.key() is None else record.key().decode(errors="replace")
            stream = stream_name(name, partition, key, is_hashed=self._is_hashed)
            kind, raw = headers.get("ce_type", name), b"null" if value is None else value
            return [StreamEvent(stream, offset, kind, raw, key, _encode_headers(headers), tranche, received, tranche)]
        if value is None:  # A deletion mark, which has no event.
            return []
        try:
            found = events_in_span(value)
        except ValueError as error:
            shown, reason = value.decode(errors="backslashreplace")[:_SHOWN_CHARS], f"{error} ({tranche}, {offset})"
            raise InvalidRecord.of("invalid-row", event_type=name, reason=reason, row=shown) from None
        return [
            StreamEvent(
                each.stream, each.index, each.kind, each.data, each.stream.partition("-")[2] or None,
                _encode_headers(each.headers | headers), tranche, received,
            )
            for each in found
        ]  # fmt: skip


def _encode_headers(headers: Mapping[str, str]) -> str:
    return _encode(headers).decode()


def _find_received(record: Any) -> int | None:
    """Return when a record was written, in microseconds since 1970; None: unknown."""
    kind, milliseconds = record.timestamp()
    return milliseconds * 1000 if kind else None


PART_EVENTS: Final = 250
"""The number of events of a part, after which there is a position: a restart repeats fewer events."""
BATCH_EVENTS: Final = 5_000
RECORDS_AT_ONCE: Final = 2_000
WAITING_MAX: Final = 2_000
"""The number of waiting records of a partition at which reading it pauses."""
LOOK_INTERVAL: Final = 5.0
"""Seconds between two checks for new partitions."""
WAKE_INTERVAL: Final = 0.1
"""Seconds until the reading thread notices that the source is closed."""
ANSWER_TIMEOUT: Final = 20.0
"""Seconds to wait for a broker when reading."""
ASK_TIMEOUT: Final = 3.0
"""The same for the number of events behind a processor."""
_OURS: Final[Mapping[str, Any]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}
"""Settings that the source depends on."""
_DEFAULTS: Final[Mapping[str, Any]] = {
    "group.id": "penstock-processing",  # Required, though it joins none.
    "client.id": "penstock",
    "fetch.queue.backoff.ms": 50,
    "log.connection.close": False,
    "log_level": 2,  # It would log each attempt to connect; our errors say the reason.
    "max.poll.interval.ms": 86_400_000,  # A processor without room reads nothing.
}
_TOPICS: Final = "the names of topics, one after the other, not in a list: 'orders', 'payments'"
_log: Final = logging.getLogger("penstock.processing")


def import_confluent_kafka() -> Any:
    """Return the library `import_confluent_kafka`, which comes with the extra `kafka`.

    Raises:
        RequirementMissing: it is not installed.
    """
    try:
        import confluent_kafka
    except ModuleNotFoundError as error:
        install = "install it: pip install 'penstock-hub[kafka]'"
        raise RequirementMissing(needed="confluent-kafka, to read Kafka,", found="none", install=install) from error
    return confluent_kafka


class Watermarks(NamedTuple):
    """The ends of a partition."""

    low: int
    """The offset of the first retained record."""
    high: int
    """The offset that the next record will have."""


class Broker:
    """A consumer of Kafka that is assigned partitions: it joins no group, and commits nothing.

    Args:
        settings: Settings of librdkafka.

    Raises:
        BadParameter: there is no such setting.
        Unavailable: (all requests) no broker answers.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._kafka = import_confluent_kafka()
        self._failure: Any = None
        try:
            self.consumer = self._kafka.Consumer({**settings, "error_cb": self._note}, logger=_log)
        except self._kafka.KafkaException as error:  # It names the setting, and not its value.
            said = error.args[0].str()
            allowed = f"those of librdkafka, which says: {said}"
            raise BadParameter(parameter="options", value="(not shown)", allowed=allowed) from None

    def list_partitions(self, name: str, timeout: float) -> list[int]:
        """Return the partitions of a topic.

        Raises:
            BadParameter: there is no topic of that name.
        """
        found = self._ask(lambda: self.consumer.list_topics(name, timeout=timeout)).topics[name]
        if found.error is not None and found.error.code() == self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise BadParameter(parameter="topics", value=name, allowed="a topic that the brokers have")
        if found.error is not None:
            raise self.translate_error(found.error)
        return sorted(found.partitions)

    def find_watermarks(self, tranche: str, timeout: float) -> Watermarks:
        """Return the first and next offsets of a partition."""
        place = self.make_place(tranche)

        def ask() -> Any:
            return self.consumer.get_watermark_offsets(place, timeout=timeout, cached=False)

        try:
            return Watermarks(*self._ask(ask))
        except Unavailable:
            self.list_partitions(place.topic, timeout)  # It may be new since the last check.
            return Watermarks(*self._ask(ask))

    def find_since(self, tranche: str, moment: datetime, timeout: float) -> int | None:
        """Return the offset of the first record of a partition written at a time or later; None: there is none."""
        place = self.make_place(tranche, max(0, int(moment.timestamp() * 1000)))
        [found] = self._ask(lambda: self.consumer.offsets_for_times([place], timeout=timeout))
        if found.error is not None:
            raise self.translate_error(found.error)
        return found.offset if found.offset >= 0 else None

    def make_place(self, tranche: str, offset: int | None = None) -> Any:
        """Return a place in a partition as an object of the library."""
        name, partition = decode_tranche(tranche)
        place = self._kafka.TopicPartition
        return place(name, partition) if offset is None else place(name, partition, offset)

    def is_end(self, error: Any) -> bool:
        """Return whether an error object only marks the end of a partition."""
        return bool(error.code() == self._kafka.KafkaError._PARTITION_EOF)

    def is_gone(self, error: Any) -> bool:
        """Return whether an error says that a partition does not have the wanted offset."""
        codes = self._kafka.KafkaError
        return error.code() in (codes.OFFSET_OUT_OF_RANGE, codes._AUTO_OFFSET_RESET)

    def translate_error(self, error: Any) -> Exception:
        """Return the error to raise for an error of the library."""
        why = f"; {self._failure.str()}" if self._failure is not None else ""
        return Unavailable(reason=f"Kafka does not answer: {error.str()}{why}")

    def _note(self, error: Any) -> None:
        self._failure = error

    def _ask(self, ask: Callable[[], Any]) -> Any:
        try:
            found = ask()
        except self._kafka.KafkaException as error:
            if not self.consumer.assignment():  # Else it could return a record.
                self.consumer.poll(0)  # It reports failures, such as a wrong password.
            raise self.translate_error(error.args[0]) from error
        if found is None:
            raise Unavailable(reason="no broker of Kafka answers")
        self._failure = None
        return found


@dataclass
class AssignedPartition:
    """A partition that is read, and its received records that were not returned yet."""

    position: int
    """The last or next wanted position."""
    next: int
    """The offset behind the received records."""
    waiting: deque[Any] = field(default_factory=deque)
    """Records."""
    end: int | None = None
    """The end of the partition, behind all waiting records; None: there may be more."""
    is_paused: bool = False


class KafkaReader:
    """Reads partitions with its own consumer, each from the wanted position.

    Args:
        broker: The consumer.
        ends: Returns the ends of a partition, by another consumer: a broker answers the requests of one connection in
            turn, so this one would first wait for its fetch, for up to `fetch.wait.max.ms`, half a second.
        events: Converts records to events.
        resolve: Returns the position to continue from after a place, given the partition's ends.
        is_over: Returns whether the source is closed.
    """

    def __init__(
        self,
        broker: Broker,
        ends: Callable[[str], Watermarks],
        events: RecordEvents,
        resolve: Callable[[str, int, Watermarks], int],
        is_over: Callable[[], bool],
    ) -> None:
        self._broker = broker
        self._ends = ends
        self._events = events
        self._resolve = resolve
        self._is_over = is_over
        self._partitions: dict[str, AssignedPartition] = {}

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> list[Batch]:
        """Return the events received of each wanted partition; with *timeout* 0, the events that are there now.

        Raises:
            InvalidRecord: a record is invalid; the events before it come first.
        """
        for tranche, want in wants.items():
            self._begin(tranche, int(want.position))
        self._pause_and_resume(wants)
        if timeout > 0:
            self._fetch(timeout, lambda: any(map(self._has_more, wants)))
        else:
            self._fetch_all(wants)
        found: list[Batch] = []
        for tranche, want in wants.items():
            try:
                found += self._take_batches(tranche, want.events_max)
            except InvalidRecord:
                if not found:
                    raise
        return found

    def close(self) -> None:
        """Close the consumer."""
        self._broker.consumer.close()

    def _begin(self, tranche: str, position: int) -> None:
        """Start to read a partition from *position*, unless that is done already."""
        before = self._partitions.get(tranche)
        if before is not None and before.position == position:
            return
        at = self._resolve(tranche, position, self._ends(tranche))
        if before is not None:
            self._unassign(tranche)
        self._broker.consumer.incremental_assign([self._broker.make_place(tranche, at)])
        self._partitions[tranche] = AssignedPartition(position, at)

    def _unassign(self, tranche: str) -> None:
        del self._partitions[tranche]
        self._broker.consumer.incremental_unassign([self._broker.make_place(tranche)])

    def _pause_and_resume(self, wants: Collection[str]) -> None:
        for tranche, each in self._partitions.items():
            is_full = tranche not in wants and len(each.waiting) >= WAITING_MAX
            if is_full and not each.is_paused:
                each.is_paused = True
                self._broker.consumer.pause([self._broker.make_place(tranche)])
            elif each.is_paused and tranche in wants:
                each.is_paused = False
                self._broker.consumer.resume([self._broker.make_place(tranche)])

    def _fetch_all(self, wants: Collection[str]) -> None:
        """Wait until each wanted partition has waiting records, or has ended."""
        ends = {each: self._ends(each).high for each in wants if not self._has_more(each)}
        self._fetch(ANSWER_TIMEOUT, lambda: all(self._is_known(each, end) for each, end in ends.items()))
        late = [each for each, end in ends.items() if not self._is_known(each, end)]
        if late and not self._is_over():
            raise Unavailable(reason=f"Kafka does not say what follows in {late[0]}")

    def _fetch(self, timeout: float, is_enough: Callable[[], bool]) -> None:
        deadline = time.monotonic() + timeout
        while not (is_enough() or self._is_over()) and (left := deadline - time.monotonic()) > 0:
            first = self._broker.consumer.poll(min(left, WAKE_INTERVAL))
            if first is not None:
                self._take([first, *self._broker.consumer.consume(RECORDS_AT_ONCE, 0)])

    def _take(self, records: Iterable[Any]) -> None:
        """Add *records* to their partitions.

        Raises:
            Unavailable: a broker has failed; the records beside the failure are added.
        """
        failure = None
        for record in records:
            error = record.error()
            tranche = "" if record.topic() is None else encode_tranche(record.topic(), record.partition())
            found = self._partitions.get(tranche)
            if error is not None and not self._broker.is_end(error):
                if found is not None and self._broker.is_gone(error):
                    self._unassign(tranche)  # The next beginning finds the position.
                else:
                    failure = self._broker.translate_error(error)
            elif found is not None and record.offset() >= found.next:
                if error is None:
                    found.waiting.append(record)
                    found.next, found.end = record.offset() + 1, None
                else:
                    found.next = found.end = record.offset()
        if failure is not None:
            raise failure

    def _has_more(self, tranche: str) -> bool:
        """Return whether a partition has records to return, or a new end without records."""
        found = self._partitions.get(tranche)
        return found is not None and (bool(found.waiting) or (found.end or 0) > found.position)

    def _is_known(self, tranche: str, end: int) -> bool:
        """Return whether a partition has records to return, or none before *end*."""
        found = self._partitions.get(tranche)
        return found is None or self._has_more(tranche) or found.position >= end

    def _take_batches(self, tranche: str, events_max: int) -> list[Batch]:
        """Return up to *events_max* received events of a partition and the rest of a record, in parts."""
        found, batches, events, count = self._partitions.get(tranche), list[Batch](), list[StreamEvent](), 0
        if found is None:
            return []
        before = position = found.position
        while found.waiting and count < min(events_max, BATCH_EVENTS):
            record = found.waiting[0]
            try:
                made = self._events.make(record)
            except InvalidRecord:
                if not count:
                    raise
                break
            found.waiting.popleft()
            position, count = record.offset() + 1, count + len(made)
            events += made
            if len(events) >= PART_EVENTS:
                batches.append(_make_batch(tranche, position, events))
                events = []
        is_tail = not found.waiting and found.end is not None
        found.position = position = max(position, found.end or 0) if is_tail else position
        if events or position > (batches[-1].end if batches else before):  # type: ignore[operator]
            batches.append(_make_batch(tranche, position, events))
        return [*batches[:-1], *(each._replace(is_tail=is_tail, is_part=False) for each in batches[-1:])]


def _make_batch(tranche: str, end: int, events: Sequence[StreamEvent]) -> Batch:
    return Batch(tranche, end, events, is_part=True, bytes=sum(len(event.raw) for event in events))


class KafkaSource(Closable):
    """Records of Kafka. A partition is a tranche, `orders/3`; a stream is the records of one key, `orders-7`.

    An event's index is its offset; `raw` is the record's value, which must be JSON if a handler reads `data`; its
    `kind` is the header `ce_type`, or the topic; `received_at` is the record's timestamp. A record without a value,
    which marks a deletion, is `null`. Headers are converted to texts; `kafka-topic`, `kafka-partition` and
    `kafka-offset` name the origin. Records without a key are one stream in each partition.

    With the *layout* `stream-span` or `summary`, a record holds events of a stream as Propulsion writes them, with the
    stream, indices, kinds and headers (`m`). Indices are then the stream's own, and grow.

    Positions are offsets, kept by the processor's checkpoints; Kafka's consumer groups are not used. Several processors
    share the partitions by leases. Partitions that are added later are read whole.

    Args:
        bootstrap_servers: The brokers: `localhost:9092`, or several separated by commas.
        topics: The topics to read, at least one.
        start: Where a processor without a position begins: at the `earliest` retained record, behind the `latest`, or
            with the first one written at a time or later, a datetime with a time zone, or since a duration ago, a
            timedelta.
        layout: The format of a record: `raw`, one event unchanged; `stream-span` or `summary`.
        is_hashed: True if records of one key are always in the same partition, as with Kafka's own partitioner until
            partitions are added. Else the records of a key in each partition are a separate stream, `orders-3_7`.
        fail_on_loss: True: it is an error if unread records are removed. False: reading continues without them, and
            their possible number is logged. A topic that was deleted and created again is detected if it is shorter.
        options: Further settings of librdkafka, such as `security.protocol`, `sasl.mechanism` and `isolation.level`.
            They may hold secrets.

    Raises:
        BadParameter: an argument is invalid; or (reading methods) there is no topic of that name.
        RequirementMissing: confluent-kafka is not installed; the extra `kafka` brings it.
        EventsLost: (`read`) unread records are removed, and *fail_on_loss* is True.
        InvalidRecord: (`read`) a record does not have the *layout*; the records before it are read.
        Unavailable: (reading methods) no broker answers.
    """

    is_dense = False
    is_replayable = True

    def __init__(
        self,
        bootstrap_servers: str,
        *topics: str,
        start: Start = "earliest",
        layout: Layout = "raw",
        is_hashed: bool = True,
        fail_on_loss: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        check_kind("bootstrap_servers", bootstrap_servers, str, "addresses, separated by commas: 'localhost:9092'")
        if not topics:
            raise BadParameter(parameter="topics", value=(), allowed="the name of one topic at least")
        for each in topics:
            check_kind("topics", each, str, _TOPICS)
            if not each:
                raise BadParameter(parameter="topics", value=each, allowed=_TOPICS)
        self._start = start_now(check_start(start))
        if layout not in LAYOUTS:
            raise BadParameter(parameter="layout", value=layout, allowed=", ".join(LAYOUTS))
        check_flag("is_hashed", is_hashed)
        check_flag("fail_on_loss", fail_on_loss)
        check_kind("options", options, Mapping | None, "a mapping: {'security.protocol': 'SSL'}")
        settings = {**_DEFAULTS, **(options or {}), **_OURS, "bootstrap.servers": bootstrap_servers}
        if ours := sorted({*_OURS, "bootstrap.servers"} & set(options or ())):
            raise BadParameter(parameter="options", value=ours[0], allowed="others: the source sets this one")
        self.is_by_stream = layout != "raw"
        self._names = tuple(dict.fromkeys(topics))
        self._fails = fail_on_loss
        self._settings = settings
        self._events = RecordEvents(layout, is_hashed=is_hashed)
        self._closed = threading.Event()
        self._asking = Exclusive(Broker(settings), lambda broker: broker.consumer.close())
        """The consumer for requests about partitions."""
        self._readers = Exclusive(dict[str, KafkaReader](), _close_all)
        """The readers of new records and of replays, once they are started."""
        self._found: list[str] | None = None
        self._looked_at = float("-inf")
        self._begun: Mapping[str, int] | None = None

    def tranches(self) -> Collection[str]:
        """Return the partitions, as of the last check."""
        with self._asking.use() as broker:
            return self._list_tranches(broker)

    def beginning(self, tranche: str, kept: Collection[str] = ()) -> Position:
        """Return where to begin in a partition: at its start, if there are positions in others of its topic."""
        name, _ = decode_tranche(tranche)
        is_new = self._start == "latest" and any(each.rpartition("/")[0] == name for each in kept)
        with self._asking.use() as broker:
            if self._begun is None:
                self._begun = {each: self._find_first(broker, each) for each in self._list_tranches(broker)}
            if is_new or tranche not in self._begun:
                return broker.find_watermarks(tranche, ANSWER_TIMEOUT).low
            return self._begun[tranche]

    def read(self, wants: Mapping[str, ReadRequest], timeout: float) -> Sequence[Batch]:
        """Return the events received of each wanted partition."""
        if self._closed.is_set():
            return []
        try:
            with self._readers.use() as readers:
                return self._get_reader(readers, "on").read(wants, timeout)
        except Unavailable:
            if self._closed.is_set():
                return []
            raise

    def reread(self, tranche: str, want: ReadRequest) -> Batch:
        """Read a partition again from an earlier offset."""
        with self._readers.use() as readers:
            found = self._get_reader(readers, "again").read({tranche: want}, 0.0)
        if not found:
            return Batch(tranche, want.position, [], is_tail=True)
        return found[-1]._replace(items=[item for each in found for item in each.items])

    def behind(self, positions: Mapping[str, Position]) -> Mapping[str, int | None]:
        """Return how many records each partition has behind its position now, at most. Waits for a short time only.

        Raises:
            Unavailable: no broker answers, or the source is closed.
        """
        with self._asking.use() as broker:
            gaps = {}
            for tranche in self._list_tranches(broker, ASK_TIMEOUT):
                low, high = broker.find_watermarks(tranche, ASK_TIMEOUT)
                gaps[tranche] = high - min(max(int(positions.get(tranche, low)), low), high)
            return gaps

    def close(self) -> None:
        """End, and wake the reading thread; a broker without an answer is not waited for."""
        self._closed.set()
        self._readers.close()
        self._asking.close()

    def _list_tranches(self, broker: Broker, timeout: float = ANSWER_TIMEOUT) -> list[str]:
        if self._found is None or time.monotonic() - self._looked_at > LOOK_INTERVAL:
            self._found = [
                encode_tranche(name, each) for name in self._names for each in broker.list_partitions(name, timeout)
            ]
            self._looked_at = time.monotonic()
        return self._found

    def _find_first(self, broker: Broker, tranche: str) -> int:
        """Return the first offset of a new processor in a partition that is not new."""
        since = None
        if isinstance(self._start, datetime):
            since = broker.find_since(tranche, self._start, ANSWER_TIMEOUT)
        ends = broker.find_watermarks(tranche, ANSWER_TIMEOUT)
        return since if since is not None else ends.low if self._start == "earliest" else ends.high

    def _get_reader(self, readers: dict[str, KafkaReader], name: str) -> KafkaReader:
        if name not in readers:
            broker = Broker(self._settings)
            readers[name] = KafkaReader(broker, self._find_ends, self._events, self._resolve, self._closed.is_set)
        return readers[name]

    def _find_ends(self, tranche: str) -> Watermarks:
        with self._asking.use() as broker:
            return broker.find_watermarks(tranche, ANSWER_TIMEOUT)

    def _resolve(self, tranche: str, position: int, ends: Watermarks) -> int:
        """Return the position to continue from: *position*, or the next possible one after a loss of records.

        Raises:
            EventsLost: records are lost, and the source fails on loss.
            BadParameter: the partition ends before that place.
        """
        name, partition = decode_tranche(tranche)
        if position > ends.high:
            allowed = f"up to {ends.high}, where {tranche} ends; `penstock groups reset` moves a processor there"
            raise BadParameter(parameter="position", value=position, allowed=allowed)
        if position >= ends.low:
            return position
        lost, reason = ends.low - position, "retention has overtaken the processor"
        if self._fails:
            raise EventsLost(event_type=name, partition=partition, lost=lost, reason=reason)
        _log.warning("up to %s events of %r, partition %d, are lost: %s", lost, name, partition, reason)
        return ends.low


def _close_all(readers: Mapping[str, KafkaReader]) -> None:
    for each in readers.values():
        each.close()
