"""Event types of a Nakadi, to which events are published in batches."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pyarrow as pa

from penstock.errors import MalformedAnswer, Unavailable
from penstock.spark.authorization import authorization
from penstock.spark.http import send_request
from penstock.spark.options import bad_option, hub_url, seconds_of, select_options
from penstock.spark.patience import patiently

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

NAMES: Final = ("tokenFile", "retryTimeout")
BATCH_EVENTS: Final = 1_000
BATCH_BYTES: Final = 4 << 20
SENT: Final = "events"


@dataclass(frozen=True)
class Nakadi:
    """An event type of the Nakadi at a URL.

    Raises:
        BadParameter: the URL or an option is wrong.
    """

    url: str
    event_type: str
    options: Mapping[str, str] = field(default_factory=dict)
    """`tokenFile`: where on the driver the bearer token is, read anew for each micro-batch. `retryTimeout`: how long a
    request is tried again, by default `120 seconds`."""

    def __post_init__(self) -> None:
        hub_url({"url": self.url})
        if not self.event_type:
            raise bad_option("event_type", self.event_type, "the name of an event type")
        self._retry_timeout()

    def write(self, records: "DataFrame") -> "DataStreamWriter":
        """Return what publishes *records*, each at least once, those of a partition in their order.

        Their keys and headers stay behind: Nakadi's events have none.
        """
        return records.writeStream.foreachBatch(self._send)

    def _send(self, records: "DataFrame", number: int) -> None:  # noqa: ARG002 - Spark's way to call
        publishing = Publishing(self._address(), self._authorization(), self._retry_timeout())
        records.select("value").mapInArrow(publishing, f"{SENT} long").agg({SENT: "sum"}).collect()

    def _address(self) -> str:
        return f"{hub_url({'url': self.url})}/event-types/{quote(self.event_type, safe='')}/events"

    def _authorization(self) -> dict[str, str]:
        return authorization(select_options(self.options, NAMES).get("tokenFile"))

    def _retry_timeout(self) -> float:
        return seconds_of("retryTimeout", select_options(self.options, NAMES).get("retryTimeout", "120 seconds"))


@dataclass(frozen=True)
class Publishing:
    """Publishes events on an executor. Holds plain values: it can be sent there."""

    address: str
    headers: Mapping[str, str] = field(repr=False)
    retry_timeout: float

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Publish the events of *batches*, and yield how many that were.

        Raises:
            PenstockError: the Nakadi does not take an event, or has not answered for too long.
        """
        for batch in batches:
            events = batch.column(0).cast(pa.large_binary()).to_pylist()
            for piece in pieces(events):
                self._publish(piece)
            yield pa.RecordBatch.from_pydict({SENT: [len(events)]})

    def _publish(self, events: list[bytes]) -> None:
        left = events

        def attempt() -> None:
            nonlocal left
            told = send_request(self.address, b"[" + b",".join(left) + b"]", headers=self.headers)
            left = find_unpublished(left, told, self.address)
            if left:
                raise Unavailable(reason=f"{self.address} could not store {len(left)} of {len(events)} events")

        patiently(self.retry_timeout, attempt)


def pieces(events: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Yield *events* in lists of as many as one request takes.

    >>> [len(piece) for piece in pieces([b"{}"] * 1001)]
    [1000, 1]
    """
    piece: list[bytes] = []
    size = 0
    for event in events:
        if piece and (len(piece) == BATCH_EVENTS or size + len(event) > BATCH_BYTES):
            yield piece
            piece, size = [], 0
        piece.append(event)
        size += len(event)
    if piece:
        yield piece


def find_unpublished(events: list[bytes], told: Any, address: str) -> list[bytes]:
    """Return *events* from the first on that a Nakadi says it could not store; it says something of each, or nothing.

    Those behind it come again, so that no event comes for the last time before one that was ahead of it.

    >>> statuses = [{"publishing_status": status} for status in ("submitted", "failed", "submitted")]
    >>> find_unpublished([b"1", b"2", b"3"], statuses, "")
    [b'2', b'3']
    >>> find_unpublished([b"1"], None, "")
    []
    """
    if not told:
        return []
    try:
        statuses = [each["publishing_status"] for each in told]
        if len(statuses) != len(events):
            raise ValueError(len(statuses))
        stored = next((place for place, status in enumerate(statuses) if status != "submitted"), len(events))
        return events[stored:]
    except (KeyError, TypeError, ValueError):
        raise MalformedAnswer(url=address, reason=f"not what became of {len(events)} events: {told!r:.200}") from None
