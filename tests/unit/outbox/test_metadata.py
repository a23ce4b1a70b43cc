"""The id and the time that a producer may leave out."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import msgspec
import pytest

from penstock.errors import InvalidEvent
from penstock.outbox.metadata import fill_metadata, lacking_metadata

EID = UUID(int=7)
NOW = datetime(2026, 11, 20, 10, 0, 0, 123_999, tzinfo=UTC)
FILLED = b'"eid":"00000000-0000-0000-0000-000000000007","occurred_at":"2026-11-20T10:00:00.123Z"'


def test_an_event_without_metadata_gets_both() -> None:
    assert fill_metadata(b'{"n":1.50}', eid=EID, occurred_at=NOW) == b'{"n":1.50,"metadata":{' + FILLED + b"}}"


def test_what_the_producer_says_stays() -> None:
    raw = b'{"metadata":{"eid":"mine","flow_id":"x"}, "n": 1e400}'

    filled = fill_metadata(raw, eid=EID, occurred_at=NOW)

    assert filled == b'{"metadata":{"eid":"mine","flow_id":"x",' + FILLED[45:] + b'},"n":1e400}'


def test_null_says_nothing() -> None:
    raw = b'{"metadata":{"eid":null,"occurred_at": null }}'

    assert lacking_metadata(msgspec.json.decode(raw))
    assert fill_metadata(raw, eid=EID, occurred_at=NOW) == b'{"metadata":{' + FILLED + b"}}"


def test_time_is_told_in_utc() -> None:
    here = NOW.astimezone(timezone(timedelta(hours=5)))

    assert fill_metadata(b"{}", eid=EID, occurred_at=here) == b'{"metadata":{' + FILLED + b"}}"


@pytest.mark.parametrize("metadata", ["text", [], 1, None])
def test_metadata_is_an_object(metadata: object) -> None:
    with pytest.raises(InvalidEvent, match="metadata"):
        lacking_metadata({"metadata": metadata})
