import msgspec
import pytest

from penstock.errors import MalformedAnswer
from penstock.spark.zeroeventhub import rows
from penstock.spark.zeroeventhub.rows import to_batches
from penstock.wire.log.reader.pages import FeedEvent


def event(raw: bytes, headers: dict[str, str] | None = None) -> FeedEvent:
    return FeedEvent(3, msgspec.Raw(raw), headers)


def test_events_are_rows_byte_for_byte() -> None:
    events = [event('{"b": 1,  "a":"é"}'.encode()), event(b'"text"', {"ce_id": "7"})]

    [batch] = to_batches(events, 3, 40, "http://x")

    assert batch.to_pylist() == [
        {"partition": 3, "number": 40, "headers": None, "data": '{"b": 1,  "a":"é"}'},
        {"partition": 3, "number": 41, "headers": [("ce_id", "7")], "data": '"text"'},
    ]


def test_batches_are_of_a_bounded_size_and_numbered_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "BATCH_BYTES", 10)
    batches = list(to_batches([event(b'"12345"')] * 5, 0, 0, "http://x"))

    assert [batch.column("number").to_pylist() for batch in batches] == [[0, 1], [2, 3], [4]]
    assert list(to_batches([], 0, 0, "http://x")) == []


@pytest.mark.parametrize("wrong", [event(b'"\xff"'), event(b"1", {"ce_id": 7})])  # type: ignore[dict-item]
def test_event_that_is_not_text_is_reported_with_its_origin(wrong: FeedEvent) -> None:
    with pytest.raises(MalformedAnswer, match=r"http://x.*an event of partition 3 is no text, or its headers are none"):
        list(to_batches([wrong], 3, 0, "http://x"))
