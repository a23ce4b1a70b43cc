"""Metadata: what the hub writes, what headers follow."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.event import check_size
from penstock.core.metadata import (
    SERVER_MEMBERS,
    WRITTEN_BYTES_MAX,
    Enrichment,
    derived_headers,
    drop_server_members,
    written_bytes,
)
from penstock.core.name import NAME_CHARS_MAX
from penstock.errors import EventTooLarge
from penstock.hub.clock import rfc3339
from penstock.server.arrival import FLOW_ID_CHARS_MAX

EID = "6F1B2F60-0000-4000-8000-00000000000a"
METADATA = {"eid": EID, "occurred_at": "2026-01-02T03:04:05.678+01:00"}
HUBS = {
    "event_type": "t",
    "partition": "3",
    "received_at": "now",
    "published_by": "unauthenticated",
    "version": "1.2.0",
}


def completed(raw: bytes, flow_id: str | None = None) -> bytes:
    enrichment = Enrichment(event_type="t", version="1.2.0", received_at="now", flow_id=flow_id)
    return enrichment.complete(raw, json.loads(raw), 3)


def enriched(event: dict[str, Any], flow_id: str | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = json.loads(completed(json.dumps(event).encode(), flow_id))["metadata"]
    return metadata


def test_the_members_of_the_hub_are_written_whatever_was_claimed() -> None:
    claimed = dict.fromkeys(SERVER_MEMBERS, "claimed")

    assert enriched({"metadata": METADATA | claimed}) == METADATA | HUBS
    assert enriched({"metadata": METADATA}) == METADATA | HUBS


def test_completing_twice_is_completing_once() -> None:
    once = completed(json.dumps({"metadata": METADATA}, separators=(",", ":")).encode(), "flow")

    assert json.loads(completed(once, "another")) == json.loads(once)


@pytest.mark.parametrize("given", [{}, {"flow_id": ""}], ids=["none", "empty"])
def test_an_event_without_a_flow_id_gets_that_of_its_request(given: dict[str, str]) -> None:
    assert enriched({"metadata": METADATA | given}, "flow")["flow_id"] == "flow"
    assert "flow_id" not in enriched({"metadata": METADATA | given})


def test_a_flow_id_of_its_own_stays() -> None:
    assert enriched({"metadata": METADATA | {"flow_id": "own"}}, "flow")["flow_id"] == "own"


def test_all_bytes_around_the_metadata_stay() -> None:
    raw = b'{ "a":1.10, "m\\u0065" : 1e2, "metadata" : {"eid":"x"} ,"b":"\\u00e9\\/", "c" : [ 1 , 2 ] }'
    before, _, after = raw.partition(b'{"eid":"x"}')

    done = completed(raw)

    assert done.startswith(before + b'{"eid":"x",')
    assert done.endswith(after)


SAME = '{"eid":"x"}'
ELSEWHERE = st.sampled_from(["copy", "of", "it"])


@given(
    st.dictionaries(ELSEWHERE, st.sampled_from([SAME, f"[{SAME}]", f'{{"metadata":{SAME}}}'])),
    st.permutations([0, 1, 2]),
)
def test_what_looks_the_same_elsewhere_is_not_taken_for_the_metadata(others: dict[str, str], order: list[int]) -> None:
    members = [f'"{name}":{value}' for name, value in others.items()]
    members.insert(min(order[0], len(members)), f'"metadata":{SAME}')
    raw = f"{{{','.join(members)}}}".encode()

    done = json.loads(completed(raw))

    assert done.pop("metadata") == {"eid": "x"} | HUBS
    assert done == {name: json.loads(value) for name, value in others.items()}


@pytest.mark.parametrize(
    "raw",
    [
        '{"of": SAME, "metadata" : SAME }',
        ' {\t"\\u006detadata":SAME , "z":SAME}',
        '{"a\\"metadata\\":":"SAME",\r"metadata":SAME,"b":[SAME]}',
        '{"copies": [' + "SAME," * 20_000 + '0], "metadata":\n SAME}',
    ],
    ids=["after", "escaped", "in texts", "thousands"],
)
def test_the_metadata_is_found_however_it_is_spelled(raw: str) -> None:
    given = raw.replace('"SAME"', r'"{\"eid\":\"x\"}"').replace("SAME", SAME).encode()

    done = completed(given)

    assert json.loads(done) == json.loads(given) | {"metadata": {"eid": "x"} | HUBS}
    assert len(done) == len(given) + len(completed(b'{"metadata":{"eid":"x"}}')) - len(b'{"metadata":{"eid":"x"}}')


def test_what_a_hub_has_written_is_dropped_save_the_partition() -> None:
    events: list[dict[str, Any]] = [{"metadata": METADATA | HUBS}, {"metadata": 5}, {}]

    drop_server_members(events)

    assert events == [{"metadata": METADATA | {"partition": "3"}}, {"metadata": 5}, {}]


def test_what_a_hub_adds_does_not_count_as_the_events_own() -> None:
    raw = json.dumps({"metadata": METADATA}, separators=(",", ":")).encode()

    assert written_bytes(completed(raw, "flow")) == len(completed(raw, "flow")) - len(raw)


def test_most_that_a_hub_writes_is_within_the_limit() -> None:
    raw = b'{"metadata":{"eid":"x"}}'
    most = Enrichment(
        event_type="t" * NAME_CHARS_MAX,
        version=".".join(["9" * 9] * 3),
        received_at=rfc3339(0),
        flow_id="f" * FLOW_ID_CHARS_MAX,
    )
    done = most.complete(raw, json.loads(raw), 10**9)

    assert written_bytes(done) == len(done) - len(raw) < WRITTEN_BYTES_MAX


@pytest.mark.parametrize("metadata", [None, 5, "x", [], {"eid": 1, "occurred_at": None, "span_ctx": "x"}])
def test_headers_follow_only_from_what_can_be_one(metadata: object) -> None:
    found = derived_headers({"metadata": metadata}, event_type="t", kind=None, key=None)
    assert found == {"ce_type": "t", "ce_source": "/event-types/t"}


@pytest.mark.parametrize("member", ["flow_id", "event_type", "version"])
def test_only_so_much_can_have_been_written_by_a_hub(member: str) -> None:
    raw = json.dumps({"metadata": METADATA | {member: "x" * 1_000_000}}).encode()

    assert written_bytes(raw) == WRITTEN_BYTES_MAX
    with pytest.raises(EventTooLarge):
        check_size(raw, 1)
