"""Metadata: what a producer gives, what the hub writes, what headers follow."""

import json
from typing import Any

import pytest

from penstock.core.metadata import check_shape, derived_headers, enrich
from penstock.errors import InvalidEvent

EID = "6F1B2F60-0000-4000-8000-00000000000a"
METADATA = {"eid": EID, "occurred_at": "2026-01-02T03:04:05.678+01:00"}
CHANGE = {"metadata": METADATA, "data_type": "t", "data_op": "U", "data": {}}


def enriched(raw: bytes) -> dict[str, Any]:
    done: dict[str, Any] = json.loads(enrich(raw, json.loads(raw), event_type="t", partition=3, received_at="now"))
    return done


def test_the_members_of_the_hub_are_written_whatever_was_claimed() -> None:
    claimed = dict.fromkeys(("received_at", "version", "published_by", "partition", "event_type"), "claimed")
    done = enriched(json.dumps({"metadata": METADATA | claimed}).encode())["metadata"]
    hubs = {"event_type": "t", "partition": "3", "received_at": "now", "published_by": "unauthenticated"}
    assert done == METADATA | hubs


def test_enriching_twice_is_enriching_once() -> None:
    once = enrich(json.dumps(CHANGE).encode(), CHANGE, event_type="t", partition=3, received_at="now")
    assert enrich(once, json.loads(once), event_type="t", partition=3, received_at="now") == once


def test_other_members_keep_their_bytes() -> None:
    raw = b'{"a":1.10, "metadata" : {"eid":"x","n":1e2} ,"b":"\\u00e9","c":123456789012345678901234567890}'
    done = enrich(raw, json.loads(raw), event_type="t", partition=0, received_at="now")
    for kept in (b'"a":1.10', b'"b":"\\u00e9"', b'"c":123456789012345678901234567890'):
        assert kept in done


@pytest.mark.parametrize(
    "occurred_at", ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456789+14:00", "2024-02-29T23:59:59-00:00"]
)
def test_a_time_has_a_zone(occurred_at: str) -> None:
    check_shape({"metadata": {"eid": EID, "occurred_at": occurred_at}}, "business", 1)


@pytest.mark.parametrize(
    "occurred_at", ["2026-01-02T03:04:05", "2026-01-02", "2026-02-30T00:00:00Z", "", None, 5, "now", []]
)
def test_anything_else_is_no_time(occurred_at: object) -> None:
    with pytest.raises(InvalidEvent, match="occurred_at"):
        check_shape({"metadata": {"eid": EID, "occurred_at": occurred_at}}, "business", 9)


@pytest.mark.parametrize("member", ["metadata", "data_type", "data_op", "data"])
def test_a_data_change_has_four_members(member: str) -> None:
    check_shape(CHANGE, "data", 1)
    with pytest.raises(InvalidEvent, match=member) as raised:
        check_shape({name: value for name, value in CHANGE.items() if name != member}, "data", 9)
    assert raised.value.fields["line"] == 9


@pytest.mark.parametrize("member", ["metadata", "data_type", "data_op", "data"])
def test_a_member_of_another_type_is_not_said_to_be_missing(member: str) -> None:
    with pytest.raises(InvalidEvent, match=f"#/{member}: must be .*, not 5"):
        check_shape(CHANGE | {member: 5}, "data", 1)


def test_an_undefined_event_needs_nothing() -> None:
    check_shape({"metadata": 5}, "undefined", 1)


@pytest.mark.parametrize("metadata", [None, 5, "x", [], {"eid": 1, "occurred_at": None, "span_ctx": "x"}])
def test_headers_follow_only_from_what_can_be_one(metadata: object) -> None:
    found = derived_headers({"metadata": metadata}, event_type="t", kind=None, key=None)
    assert found == {"ce_type": "t", "ce_source": "/event-types/t"}
