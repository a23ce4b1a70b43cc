"""A task uploads its rows in chunks and returns a digest of the chunks that the hub keeps."""

from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

from penstock.core.events.event import NewEvent
from penstock.errors import EventTooLarge, InvalidEvent, InvalidRecord
from penstock.spark import upload as uploading
from penstock.spark.publishing import QueryBatch
from penstock.spark.rows import EventRows
from penstock.spark.upload import chunks_of, upload
from penstock.wire.batches import AcceptedChunk, UploadPart
from tests.failing import has_code

BATCH = QueryBatch("a", "g", 7, "q")
ROWS = EventRows(StructType().add("data", StringType()), "a", rejects=False)


class Hub:
    """Keeps what it is handed, and says of how many events each chunk is."""

    def __init__(self, name: str | None = "u", refuses: Exception | None = None) -> None:
        self.name, self.refuses = name, refuses
        self.bodies: list[bytes] = []
        self.opened = 0

    def open(self, batch: QueryBatch) -> str | None:
        assert batch == BATCH
        self.opened += 1
        return self.name

    def put(self, event_type: str, name: str, number: int, body: bytes, *, rejects: bool) -> AcceptedChunk:
        assert (event_type, name, number) == ("a", "u", len(self.bodies))
        if self.refuses:
            raise self.refuses
        self.bodies.append(body)
        return AcceptedChunk(number, body.count(b"\n") - rejects, digest(body).hex())


def digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def batch_of(*texts: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"data": list(texts)}, pa.schema([("data", pa.string())]))


def hand_in(hub: Any, *batches: pa.RecordBatch, rejects: bool = False) -> UploadPart | None:
    return upload(hub, BATCH, ROWS, batches, rejects=rejects)


def test_rows_are_handed_in_by_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploading, "CHUNK_EVENTS_MAX", 2)
    hub = Hub()

    part = hand_in(hub, batch_of('{"a":1}'), batch_of('{"a":2}', '{"a":3}'))

    assert hub.bodies == [b'{"data":{"a":1}}\n{"data":{"a":2}}\n', b'{"data":{"a":3}}\n']
    assert part == UploadPart("u", 2, 3, digest(b"".join(map(digest, hub.bodies))).hex())


def test_hub_counts_the_valid_rows_when_others_are_rejected() -> None:
    part = hand_in(Hub(), batch_of("{}", "{}"), rejects=True)

    assert part is not None
    assert part.events == 1


def test_chunks_are_not_too_large() -> None:
    large = NewEvent.of(b'{"a":"%s"}' % (b"x" * 1_000_000))

    assert [len(chunk.events) for chunk in chunks_of([large] * 10)] == [5, 5]
    assert list(chunks_of([])) == []


def test_without_rows_nothing_is_asked() -> None:
    hub = Hub()

    assert hand_in(hub) is None
    assert hand_in(hub, batch_of()) is None
    assert hub.opened == 0


def test_a_batch_that_was_begun_before_is_settled() -> None:
    hub = Hub(name=None)

    assert hand_in(hub, batch_of("{}")) is None
    assert hub.bodies == []


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (InvalidEvent(line=2, reason="#/a: is wrong"), "no valid event of 'a': #/a: is wrong; it begins"),
        (EventTooLarge(line=2, size=9, limit=8), "no valid event of 'a': .*; it begins"),
    ],
)
def test_a_row_that_the_hub_refuses_is_shown(error: Exception, says: str) -> None:
    with pytest.raises(InvalidRecord, check=has_code("invalid-row"), match=says) as refused:
        hand_in(Hub(refuses=error), batch_of('{"a":1}', '{"a":2}', '{"a":3}'))

    assert refused.value.row == '{"a":2}'
