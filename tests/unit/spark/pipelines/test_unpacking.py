"""Events out of records of Propulsion's."""

import pyarrow as pa
import pytest

from penstock.errors import InvalidRecord
from penstock.spark.pipelines.spans import Unpacking, unpack
from tests.failing import has_code

HEADERS = pa.map_(pa.string(), pa.string())


def test_a_span_has_its_events_in_order_with_their_indices() -> None:
    found = unpack(b'{"s":"a-1","i":5,"e":[{"c":"A","d":{"n":  1}},{"c":"B","d":{}}]}', "order")

    assert [(each.data, each.headers["ce_type"], each.headers["stream-index"]) for each in found] == [
        (b'{"n":  1}', "A", "5"),
        (b"{}", "B", "6"),
    ]


def test_the_events_of_a_summary_have_its_index() -> None:
    found = unpack(b'{"s":"a-1","i":5,"u":[{"c":"A","d":{}},{"c":"B","d":{}}]}', "order")

    assert [each.headers["stream-index"] for each in found] == ["5", "5"]


@pytest.mark.parametrize(("stream", "key"), [("order-7", "7"), ("order-a-b", "a-b"), ("other-7", "other-7")])
def test_key_is_the_stream_name_after_the_event_type(stream: str, key: str) -> None:
    [found] = unpack(b'{"s":"%b","i":0,"e":[{"c":"A","d":{}}]}' % stream.encode(), "order")

    assert found.key == key


@pytest.mark.parametrize(
    ("meta", "headers"),
    [('{"trace":"1","n":2}', {"trace": "1", "n": "2"}), ('"text"', {"meta": '"text"'}), ("null", {})],
)
def test_span_metadata_become_headers(meta: str, headers: dict[str, str]) -> None:
    given = b'{"s":"a","i":0,"e":[{"c":"A","t":"2026-11-20T10:00:00Z","d":{},"m":%b}]}' % meta.encode()
    [found] = unpack(given, "order")

    assert found.headers == {"ce_type": "A", "ce_time": "2026-11-20T10:00:00Z", "stream-index": "0"} | headers


def test_records_headers_go_on_with_each_event() -> None:
    given = {"value": ['{"s":"a","i":0,"e":[{"c":"A","d":{}},{"c":"B","d":{}}]}'], "headers": [[("kafka-offset", "3")]]}
    [found] = Unpacking("order")(
        [pa.RecordBatch.from_pydict(given, pa.schema({"value": pa.string(), "headers": HEADERS}))]
    )

    assert [dict(each)["kafka-offset"] for each in found.column("headers").to_pylist()] == ["3", "3"]


@pytest.mark.parametrize("value", [b"{", b"{}", b'{"s":"a","i":0}', b'{"s":"a","i":0,"e":[]}', b"\xff"])
def test_malformed_record_is_reported_with_its_kafka_offset(value: bytes) -> None:
    given = {"value": [value], "headers": [[("kafka-topic", "orders"), ("kafka-offset", "3")]]}
    batch = pa.RecordBatch.from_pydict(given, pa.schema({"value": pa.binary(), "headers": HEADERS}))

    with pytest.raises(InvalidRecord, check=has_code("invalid-row"), match=r"kafka-topic orders, kafka-offset 3"):
        list(Unpacking("order")([batch]))


def test_tombstone_has_no_events() -> None:
    given = {"value": [None], "headers": [[]]}
    batch = pa.RecordBatch.from_pydict(given, pa.schema({"value": pa.binary(), "headers": HEADERS}))

    assert [each.num_rows for each in Unpacking("order")([batch])] == [0]
