"""StreamSpans and summaries: which events are in one record, and what it looks like."""

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import BadParameter
from penstock.spark.pipelines.records import RECORD_TYPES
from penstock.spark.pipelines.spans import SPAN_BYTES_MAX, SPAN_EVENTS_MAX, SpanEvent, Spans

HASHED = frozenset(["order"])
SPANS = Spans("stream-span", HASHED)
SUMMARIES = Spans("summary", HASHED)
TIME = datetime(2026, 11, 20, 10, 0, 0, 123_000, UTC)


def item(offset: int, key: str | None = "7", **more: Any) -> SpanEvent:
    given: dict[str, Any] = {"event_type": "order", "partition": 0, "headers": {}, "data": f'{{"n": {offset}.0}}'}
    return SpanEvent(**{**given, "offset": offset, "key": key, "received_at": TIME, "kind": "Placed", **more})


def shape(records: Any) -> list[tuple[str, int, int]]:
    """The stream, first index and number of events of each record."""
    found = [json.loads(record.value) for record in records]
    return [(each["s"], each["i"], len(each.get("e") or each["u"])) for each in found]


def test_span_is_the_events_of_a_stream_that_follow_each_other() -> None:
    assert shape(SPANS.spans([item(3), item(4), item(5)])) == [("order-7", 3, 3)]
    assert shape(SPANS.spans([item(3), item(5), item(8)])) == [("order-7", 6, 3)], "it ends at the offset of the last"
    found = SPANS.spans([item(3), item(4, "8"), item(5, None), item(6), item(9, None)])
    assert sorted(shape(found)) == [("order-0_", 8, 2), ("order-7", 5, 2), ("order-8", 4, 1)]
    by_version = Spans("stream-span", HASHED, ("order", "version"))
    found = by_version.spans(item(n * 10, data=f'{{"order": {{"version": {n}}}}}') for n in range(4))
    assert shape(found) == [("order-7", 0, 4)], "by the index that is in the event"
    found = by_version.spans(item(n, data=f'{{"order": {{"version": {n}}}}}') for n in (3, 5, 6))
    assert shape(found) == [("order-7", 3, 1), ("order-7", 5, 2)], "a hole ends it"


def test_summary_is_the_newest_event_of_a_stream() -> None:
    found = list(SUMMARIES.summaries([item(3), item(4, "8"), item(9)]))

    assert shape(found) == [("order-7", 9, 1), ("order-8", 4, 1)]
    assert '"u":[' in found[0].value


def test_a_key_that_has_moved_to_another_partition_begins_a_span() -> None:
    found = list(SPANS.spans([item(3), item(4, partition=1)]))

    assert [(each.partition, each.headers["penstock-offsets"]) for each in found] == [(0, "[3]"), (1, "[4]")]


def test_spans_have_a_size() -> None:
    many = SPANS.spans(item(offset) for offset in range(SPAN_EVENTS_MAX + 1))
    large = SPANS.spans(item(offset, data=f'"{"x" * (SPAN_BYTES_MAX // 2)}"') for offset in range(2))

    assert [events for _, _, events in shape(many)] == [SPAN_EVENTS_MAX, 1]
    assert [events for _, _, events in shape(large)] == [1, 1]


def test_span_size_counts_values_and_headers() -> None:
    headers = {"ce_id": "é" * 100, "trace": "x" * 1_000}
    for record in SPANS.spans(item(n, headers=headers, data=f'"{"é" * 400}"') for n in range(SPAN_EVENTS_MAX)):
        assert len(record.value.encode()) <= SPAN_BYTES_MAX + 100
        assert sum(len(each.encode()) for pair in record.headers.items() for each in pair) <= 65_536


def test_an_event_keeps_its_bytes_kind_time_and_headers() -> None:
    headers = {"ce_id": "a", "ce_time": "2026-11-19T00:00:00Z", "trace": '"1"', "penstock-feed": "old"}
    [record] = SPANS.spans([item(3, data='{"n":  1.50}', headers=headers)])

    assert record.value == (
        '{"s":"order-7","i":3,"e":[{"c":"Placed","t":"2026-11-19T00:00:00Z","d":{"n":  1.50},'
        '"m":{"ce_id":"a","ce_time":"2026-11-19T00:00:00Z","trace":"\\"1\\""}}]}'
    )
    assert record.headers["penstock-ids"] == '["a"]'


def test_without_headers_there_is_no_m_and_the_time_is_the_hubs() -> None:
    [record] = SPANS.spans([item(3)])

    assert record.value.endswith('"e":[{"c":"Placed","t":"2026-11-20T10:00:00.123Z","d":{"n": 3.0}}]}')


@pytest.mark.parametrize("data", ['{"n": 1}', '{"version": "1"}', '{"version": 1.5}', "[]"])
def test_event_without_an_index_is_refused_with_its_offset(data: str) -> None:
    with pytest.raises(BadParameter, match="index is version, but the event at order 0:3 has no whole number there"):
        list(Spans("summary", HASHED, ("version",)).summaries([item(3, data=data)]))


@pytest.mark.parametrize("offsets", [range(3), range(0)], ids=["some", "none"])
def test_batches_become_records_in_sparks_types(offsets: range) -> None:
    kinds = pa.schema(
        [
            ("event_type", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("key", pa.string()),
            ("headers", pa.map_(pa.string(), pa.string())), ("data", pa.string()),
            ("received_at", pa.timestamp("us", "UTC")), ("kind", pa.string()),
        ]
    )  # fmt: skip
    rows = [item(offset, headers=[("ce_id", str(offset))])._asdict() for offset in offsets]
    [found] = SPANS([pa.RecordBatch.from_pylist(rows, kinds)])

    assert found.schema == RECORD_TYPES
    assert found.num_rows == min(1, len(offsets))
