"""Events as the hub accepts them: JSON, sizes, keys, kinds and headers, and the metadata that the hub completes."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.events.event import (
    DECODED_BYTES_MAX,
    EVENT_BYTES_MAX,
    HEADERS_BYTES_MAX,
    PIECE_BYTES,
    check_event,
    check_events,
    check_headers,
    check_key,
    check_kind,
    check_size,
    check_sizes,
    derive_headers,
    remove_line_breaks,
)
from penstock.core.events.metadata import (
    SERVER_MEMBERS,
    WRITTEN_BYTES_MAX,
    Enrichment,
    count_written_bytes,
    drop_server_members,
)
from penstock.core.registry.definition import NAME_CHARS_MAX
from penstock.core.times import format_time
from penstock.errors import EventTooLarge, InvalidEvent, MalformedEvent
from penstock.schema.json_text import CONTAINERS_MAX, DEPTH_MAX, decode
from penstock.server.http.requests import FLOW_ID_CHARS_MAX
from tests.exhaustive import examples
from tests.failing import has_code

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=8
)
EVENTS = st.dictionaries(TEXT, JSON, max_size=4)
FEW = settings(max_examples=examples(15, 100))


@FEW
@given(EVENTS, st.booleans(), st.sampled_from([None, 2]))
def test_object_is_an_event_however_it_is_spelled(event: dict[str, Any], ascii_only: bool, indent: int | None) -> None:
    line = remove_line_breaks(json.dumps(event, ensure_ascii=ascii_only, indent=indent).encode())
    assert b"\n" not in line
    assert check_events([line]) == [event]


@FEW
@given(EVENTS, st.data())
def test_repeated_key_is_found_wherever_it_stands(event: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(TEXT)
    inner = f"{{{json.dumps(name)}:1,{json.dumps(name, ensure_ascii=False)}:1}}"
    raw = json.dumps(event | {"!": "HERE"}).replace('"HERE"', inner).encode()
    with pytest.raises(InvalidEvent, match="stands twice"):
        check_events([raw])


def test_event_with_too_many_objects_and_lists_is_refused_before_it_is_decoded() -> None:
    most = b'{"a":[' + b"{}," * (CONTAINERS_MAX - 2) + b'"' + b"{" * 1_000 + b'"]}'

    assert len(check_events([most])[0]["a"]) == CONTAINERS_MAX - 1
    reason = f"the event has {CONTAINERS_MAX + 1} objects and lists within it, {CONTAINERS_MAX} are allowed"
    with pytest.raises(MalformedEvent, check=lambda error: (error.line, error.reason) == (2, reason)):
        check_events([b"{}", most.replace(b"{}", b"[{}]", 1)])


def test_repeated_key_among_very_many_is_found() -> None:
    """A scan for each key would take longer than a test may."""
    members = ",".join(f'"k{number}":1' for number in range(50_000))

    with pytest.raises(MalformedEvent, match="the key 'z' stands twice"):
        check_events([f'{{{members},"z":1,"z":2}}'.encode()])


@FEW
@given(st.binary(max_size=40))
def test_bytes_other_than_a_json_object_are_refused_with_their_line(raw: bytes) -> None:
    try:
        is_object = isinstance(json.loads(raw.decode()), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        with pytest.raises(InvalidEvent) as refused:
            check_events([b"{}", raw], [10, 20])
        assert refused.value.line == 20


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        *((value, f"this is {name}") for value, name in [(b"[]", "an array"), (b'"x"', "a string"), (b"1", "a number"),
            (b"null", "null"), (b"true", "a boolean")]),
        *((value, f"line 1: not valid JSON: .*{reason}") for value, reason in [
            (b'\xef\xbb\xbf{"a":1}', "byte order mark"),
            (b'{"a":"\xff"}', r"byte 7 of it \(FF\) is not UTF-8"),
            (rb'{"a":"\ud800"}', "half a surrogate pair"),
            (b'{"a":', "ends in the middle"),
            (rb'{"a":"\ud83d\ude00"', "ends in the middle"),
            (b'{"a"=1}', "byte 4"),
        ]),
    ],
)  # fmt: skip
def test_refusal_of_an_event_names_the_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(InvalidEvent, match=reason):
        check_events([raw])


def test_first_event_that_is_too_large_is_named_with_its_size() -> None:
    fits = b'{"x":"' + b"y" * (EVENT_BYTES_MAX - 8) + b'"}'
    assert check_event(fits) == fits
    with pytest.raises(EventTooLarge) as refused:
        check_sizes([b"{}", fits + b" ", fits + b"  "], [1, 2, 3])
    assert refused.value.fields == {"line": 2, "size": EVENT_BYTES_MAX + 1, "limit": EVENT_BYTES_MAX}


def test_events_are_decoded_in_pieces_with_their_own_lines() -> None:
    small, large = [b'{"a": %d}' % number for number in range(10)], b'{"a":"' + b"x" * PIECE_BYTES + b'"}'
    events = [*small, large, *small, b'{"b":[1,2]}']

    assert check_events(events) == [*map(decode, events)]
    for bad in (b'{"a":1,"a":1}', b"{", b"[]", b'{"a":9223372036854775808}'):
        with pytest.raises(MalformedEvent) as refused:
            check_events([*events, bad, *events, bad], range(100, 200))
        assert refused.value.line == 100 + len(events)


def test_event_of_more_than_a_mebibyte_is_refused_before_it_is_decoded() -> None:
    large = b"[" * (DECODED_BYTES_MAX + 1)
    with pytest.raises(EventTooLarge, match=f"line 2: the event has {len(large)} bytes"):
        check_events([b"{}", large, b"{"])
    with pytest.raises(MalformedEvent, match="line 1"):
        check_events([b"{", large])


def test_integer_of_more_than_64_bits_is_named() -> None:
    for number in [1 << 63, -(1 << 63) - 1, 1 << 64, 10**30]:
        for where in ('{"a":%s}', '{"a":[{"b":[1,%s]}]}', '{ "a" : %s }'):
            with pytest.raises(MalformedEvent, match=f"line 7: the number {number} does not fit into 64 bits"):
                check_events([b"{}", (where % number).encode()], [3, 7])


def test_digits_of_texts_names_and_fractions_are_no_large_integers() -> None:
    raw = f'{{"s":"{10**30}","{10**30}":1,"f":1234567890123456789012.5,"n":{(1 << 63) - 1},"m":{-(1 << 63)}}}'

    assert check_events([raw.encode()]) == [json.loads(raw)]


@FEW
@given(st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True))
def test_number_is_decoded_as_by_msgspec(text: str) -> None:
    def read(decode: Any) -> tuple[str, str]:
        try:
            return repr(decode(f'{{"a":[1,{text}]}}')), ""
        except msgspec.DecodeError as error:
            return "", str(error)

    assert read(decode) == read(msgspec.json.decode)


def test_numbers_near_the_ends_are_decoded() -> None:
    numbers = ["1e300", "-8e307", "4.9e-324", "1.7976931348623157e308"]
    assert decode(f"[{','.join(numbers)}]") == list(map(float, numbers))


@pytest.mark.parametrize("bracket", ["[]", "{}"])
def test_depth_of_an_event_is_limited(bracket: str) -> None:
    def nested(depth: int) -> bytes:
        opened, closed = ('{"a":', "}") if bracket == "{}" else ("[", "]")
        return f'{{"x":{opened * (depth - 1)}1{closed * (depth - 1)}}}'.encode()

    check_events([nested(DEPTH_MAX)])
    for depth in (DEPTH_MAX + 1, 900, 5_000, 100_000):
        with pytest.raises(InvalidEvent, match="nested too deeply"):
            check_events([nested(depth)])


def test_brackets_in_texts_and_beside_each_other_are_no_depth() -> None:
    check_events([json.dumps({"x": ['[{\\"'] * 400, "y": [[]] * 400, '"[': "\\" * 500}).encode()])


WRONG_TEXTS = ["k" * 1_025, "a\nb", "\x00", "\x7f", "\ud800"]


def test_key_is_up_to_1024_printable_characters() -> None:
    for key in ("", "k", "é🦑", "k" * 1_024, " "):
        check_key(key, 1)
    for key in WRONG_TEXTS:
        with pytest.raises(InvalidEvent) as refused:
            check_key(key, 4)
        assert refused.value.line == 4
        assert refused.value.detail.isprintable()
    with pytest.raises(InvalidEvent, check=has_code("partition-refused")) as elsewhere:
        check_key("a\n", 4, "partition-refused", where="#/a")
    assert elsewhere.value.reason.startswith("#/a: a key has no control characters")


def test_kind_is_1_to_1024_printable_characters() -> None:
    for kind in ("k", "é🦑", "k" * 1_024, " "):
        check_kind(kind, 1, "#/data_type")
    for kind in ("", "\x01", *WRONG_TEXTS):
        with pytest.raises(InvalidEvent) as refused:
            check_kind(kind, 1, "#/data_type")
        assert refused.value.reason.startswith("#/data_type: must be 1 to 1024 characters")
        assert refused.value.detail.isprintable()


def test_headers_become_one_line_of_json() -> None:
    assert check_headers({}, 1) is None
    assert check_headers({"a": "x\ny", "é": ""}, 1) == '{"a":"x\\ny","é":""}'
    for headers in ({"": "x"}, {"a\n": "x"}, {"\ud800": "x"}, {"a": "\ud800"}, {"a": "x" * HEADERS_BYTES_MAX}):
        with pytest.raises(InvalidEvent):
            check_headers(headers, 1)


# Metadata.

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


def test_members_of_the_hub_replace_those_of_the_producer() -> None:
    claimed = dict.fromkeys(SERVER_MEMBERS, "claimed")

    assert enriched({"metadata": METADATA | claimed}) == METADATA | HUBS
    assert enriched({"metadata": METADATA}) == METADATA | HUBS


def test_completed_event_stays_as_it_is_when_completed_again() -> None:
    once = completed(json.dumps({"metadata": METADATA}, separators=(",", ":")).encode(), "flow")

    assert json.loads(completed(once, "another")) == json.loads(once)


def test_event_without_a_flow_id_gets_that_of_its_request() -> None:
    for own in ({}, {"flow_id": ""}):
        assert enriched({"metadata": METADATA | own}, "flow")["flow_id"] == "flow"
        assert "flow_id" not in enriched({"metadata": METADATA | own})
    assert enriched({"metadata": METADATA | {"flow_id": "own"}}, "flow")["flow_id"] == "own"


def test_bytes_around_the_metadata_stay() -> None:
    raw = b'{ "a":1.10, "m\\u0065" : 1e2, "metadata" : {"eid":"x"} ,"b":"\\u00e9\\/", "c" : [ 1 , 2 ] }'
    before, _, after = raw.partition(b'{"eid":"x"}')

    done = completed(raw)

    assert done.startswith(before + b'{"eid":"x",')
    assert done.endswith(after)


SAME = '{"eid":"x"}'
ELSEWHERE = st.sampled_from(["copy", "of", "it"])


@FEW
@given(
    st.dictionaries(ELSEWHERE, st.sampled_from([SAME, f"[{SAME}]", f'{{"metadata":{SAME}}}'])),
    st.permutations([0, 1, 2]),
)
def test_equal_bytes_elsewhere_are_not_taken_for_the_metadata(others: dict[str, str], order: list[int]) -> None:
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
def test_metadata_is_found_however_it_is_spelled(raw: str) -> None:
    given = raw.replace('"SAME"', r'"{\"eid\":\"x\"}"').replace("SAME", SAME).encode()

    done = completed(given)

    assert json.loads(done) == json.loads(given) | {"metadata": {"eid": "x"} | HUBS}
    assert len(done) == len(given) + len(completed(b'{"metadata":{"eid":"x"}}')) - len(b'{"metadata":{"eid":"x"}}')


def test_members_that_a_hub_has_written_are_dropped_except_the_partition() -> None:
    events: list[dict[str, Any]] = [{"metadata": METADATA | HUBS}, {"metadata": 5}, {}]

    drop_server_members(events, [msgspec.json.encode(each) for each in events])

    assert events == [{"metadata": METADATA | {"partition": "3"}}, {"metadata": 5}, {}]


def test_bytes_that_a_hub_adds_are_not_counted_as_the_events_own() -> None:
    raw = json.dumps({"metadata": METADATA}, separators=(",", ":")).encode()
    assert count_written_bytes(completed(raw, "flow")) == len(completed(raw, "flow")) - len(raw)

    raw = b'{"metadata":{"eid":"x"}}'
    version, flow_id = ".".join(["9" * 9] * 3), "f" * FLOW_ID_CHARS_MAX
    most = Enrichment(event_type="t" * NAME_CHARS_MAX, version=version, received_at=format_time(0), flow_id=flow_id)
    done = most.complete(raw, json.loads(raw), 10**9)
    assert count_written_bytes(done) == len(done) - len(raw) < WRITTEN_BYTES_MAX


def test_bytes_that_a_hub_can_have_added_are_limited() -> None:
    for member in ["flow_id", "event_type", "version"]:
        raw = json.dumps({"metadata": METADATA | {member: "x" * 1_000_000}}).encode()

        assert count_written_bytes(raw) == WRITTEN_BYTES_MAX
        with pytest.raises(EventTooLarge):
            check_size(raw, 1)


def test_headers_are_derived_from_texts_alone() -> None:
    for metadata in [None, 5, "x", [], {"eid": 1, "occurred_at": None, "span_ctx": "x"}]:
        found = derive_headers({"metadata": metadata}, event_type="t", kind=None, key=None)
        assert found == {"ce_type": "t", "ce_source": "/event-types/t"}
