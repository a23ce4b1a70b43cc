from pathlib import Path

import msgspec
import pytest

from penstock.spark.columns import some_of
from penstock.spark.landing import Landing
from penstock.spark.zeroeventhub.columns import remote_schema
from penstock.spark.zeroeventhub.landed_pages import LandedPages
from penstock.spark.zeroeventhub.options import parse_remote_options
from penstock.spark.zeroeventhub.places import Landed, Place, decode_landed, encode_landed
from penstock.spark.zeroeventhub.stream import RemoteFeedStreamReader
from penstock.wire.log.reader.pages import FeedEvent


def reader(folder: Path, **options: str) -> RemoteFeedStreamReader:
    given = {"url": "http://localhost:1/feed", "landingLocation": str(folder)} | options
    schema = remote_schema(include_headers=False)
    return RemoteFeedStreamReader(parse_remote_options(given), some_of(schema, schema))


@pytest.fixture
def ends(tmp_path: Path) -> list[Landed]:
    """Ends of micro-batches of one landed page each, all of partition 0."""
    pages, place, found = LandedPages(Landing(str(tmp_path), "6f1c"), "r"), Place(0, 0, "_first"), []
    for page in range(4):
        place = pages.add(0, place, [FeedEvent(0, msgspec.Raw(b"%d" % page))], str(page), "http://x")
        found.append(Landed("6f1c", "r", {0: place}))
    return found


def numbers(stream: RemoteFeedStreamReader, start: Landed, end: Landed) -> list[int]:
    tasks = stream.partitions(encode_landed(start), encode_landed(end))
    return [row["number"] for task in tasks for batch in stream.read(task) for row in batch.to_pylist()]


def test_each_query_begins_with_a_landing_of_its_own(tmp_path: Path) -> None:
    first, second = (decode_landed(reader(tmp_path).initialOffset()) for _ in range(2))

    assert first.landing != second.landing
    assert first.partitions == {}


def test_micro_batch_reads_landed_pages_between_two_offsets_without_requests(
    tmp_path: Path, ends: list[Landed]
) -> None:
    assert numbers(reader(tmp_path), ends[0], ends[2]) == [1, 2]
    assert numbers(reader(tmp_path), ends[2], ends[2]) == []


def test_first_micro_batch_can_be_repeated_for_any_start_offset(tmp_path: Path, ends: list[Landed]) -> None:
    stream = reader(tmp_path)

    assert numbers(stream, decode_landed(stream.initialOffset()), ends[1]) == [0, 1]
    stream.commit(encode_landed(ends[1]))
    assert numbers(stream, ends[0], ends[3]) == [1, 2, 3], "and nothing was deleted"


def test_the_pages_of_the_last_micro_batch_stay_and_those_before_are_deleted(
    tmp_path: Path, ends: list[Landed]
) -> None:
    stream = reader(tmp_path)
    numbers(stream, ends[1], ends[2])
    stream.commit(encode_landed(ends[2]))

    assert sorted(path.stem for path in tmp_path.rglob("*.arrow")) == ["000000000002", "000000000003"]
