"""Requests of idempotent producers: headers, envelopes, claims and staged uploads, and how wrong ones are refused."""

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.events.event import EVENTS_MAX
from penstock.core.producers import EpochClaim, ProducerStamp
from penstock.errors import BadParameter, Invalid, MalformedRequest, RequestTooLarge
from penstock.wire import batches as staging
from penstock.wire.batches import (
    OpenUpload,
    PublishBatch,
    UploadPart,
    parse_open,
    parse_publish,
)
from penstock.wire.producers import (
    DEADLINE,
    DEADLINE_MS_MAX,
    EPOCH,
    GROUP,
    NUMBER_MAX,
    OVERLAP,
    SEQUENCE,
    OffsetSpan,
    OutcomeRecord,
    ProducerHeaders,
    PublishedBatch,
    SequenceRange,
    check_group,
    parse_after,
    parse_claim,
    parse_envelope,
    parse_headers,
    parse_number,
    refuse_numbers,
)
from tests.failing import has_code

WHOLE = {GROUP: "g", EPOCH: "3", SEQUENCE: "7"}
AT = ProducerStamp(3, 7)
OVER = "9007199254740992"
ALLOWED_GROUP = "1 to 128 characters of A-Z, a-z, 0-9 and . _ : ~ -, but neither . nor .. alone"
ALLOWED_NUMBER = "a whole number from 0 to 9007199254740991 in decimal digits"
ALLOWED_TIME = "a whole number from 0 to 3600000 in decimal digits"


def parse(*headers: tuple[str, str]) -> ProducerHeaders | None:
    """Read headers, any of which may stand there more than once."""
    values = defaultdict(list)
    for name, value in headers:
        values[name].append(value)
    return parse_headers(dict(headers), lambda name: values[name])


GOOD: dict[str, tuple[dict[str, str], ProducerHeaders | None]] = {
    "none": ({}, None),
    "others": ({"Producer": "g", "Content-Type": "x"}, None),
    "the three": (WHOLE, ProducerHeaders("g", AT)),
    "the smallest numbers": (WHOLE | {EPOCH: "0", SEQUENCE: "0"}, ProducerHeaders("g", ProducerStamp(0, 0))),
    "the largest numbers": (WHOLE | {EPOCH: str(NUMBER_MAX), SEQUENCE: str(NUMBER_MAX)},
        ProducerHeaders("g", ProducerStamp(2**53 - 1, 2**53 - 1))),
    "the longest group": (WHOLE | {GROUP: "x" * 128}, ProducerHeaders("x" * 128, AT)),
    "all that a group may have": (WHOLE | {GROUP: "aZ09._:~-"}, ProducerHeaders("aZ09._:~-", AT)),
    "overlaps refused": (WHOLE | {OVERLAP: "reject"}, ProducerHeaders("g", AT)),
    "overlaps trimmed": (WHOLE | {OVERLAP: "trim"}, ProducerHeaders("g", AT, trims=True)),
    "no time": (WHOLE | {DEADLINE: "0"}, ProducerHeaders("g", AT, deadline_ms=0)),
    "as much time as there may be": (
        WHOLE | {DEADLINE: "3600000"}, ProducerHeaders("g", AT, deadline_ms=DEADLINE_MS_MAX)),
}  # fmt: skip


def test_headers_are_parsed() -> None:
    for headers, expected in GOOD.values():
        assert parse(*headers.items()) == expected


def but(**others: str | None) -> list[tuple[str, str]]:
    """Return good headers with *others* in their place; None leaves one out."""
    named = {f"Producer-{name.replace('_', '-')}": value for name, value in others.items()}
    return [(name, value) for name, value in (WHOLE | named).items() if value is not None]


BAD: dict[str, tuple[list[tuple[str, str]], str, str | None, str]] = {
    "no group": (but(Group=None), GROUP, None, ALLOWED_GROUP),
    "no epoch": (but(Epoch=None), EPOCH, None, ALLOWED_NUMBER),
    "no sequence": (but(Sequence=None), SEQUENCE, None, ALLOWED_NUMBER),
    "two groups": ([*but(), (GROUP, "h")], GROUP, "h", "one value"),
    "two epochs": ([*but(), (EPOCH, "3")], EPOCH, "3", "one value"),
    "two sequences": ([*but(), (SEQUENCE, "x")], SEQUENCE, "x", "one value"),
    "two overlaps": ([*but(Overlap="trim"), (OVERLAP, "trim")], OVERLAP, "trim", "one value"),
    "two deadlines": ([*but(Deadline_Ms="1"), (DEADLINE, "2")], DEADLINE, "2", "one value"),
    "an overlap alone": ([(OVERLAP, "trim")], GROUP, None, "it, where there is Producer-Overlap"),
    "a deadline alone": ([(DEADLINE, "1")], GROUP, None, "it, where there is Producer-Deadline-Ms"),
    "a group that is empty": (but(Group=""), GROUP, "", ALLOWED_GROUP),
    "a group that is too long": (but(Group="x" * 129), GROUP, "x" * 80, ALLOWED_GROUP),
    "a group with a line end": (but(Group="g\n"), GROUP, "g\n", ALLOWED_GROUP),
    "a group with an umlaut": (but(Group="ü"), GROUP, "ü", ALLOWED_GROUP),
    "a group in bytes that are no UTF-8": (but(Group="\udcff"), GROUP, "\\udcff", ALLOWED_GROUP),
    "another overlap": (but(Overlap="TRIM"), OVERLAP, "TRIM", "reject or trim"),
    "a deadline that is too late": (but(Deadline_Ms="3600001"), DEADLINE, "3600001", ALLOWED_TIME),
    "a deadline that is no number": (but(Deadline_Ms="1s"), DEADLINE, "1s", ALLOWED_TIME),
}  # fmt: skip


@pytest.mark.parametrize(("headers", "parameter", "value", "allowed"), BAD.values(), ids=BAD)
def test_wrong_header_is_named(headers: list[tuple[str, str]], parameter: str, value: str | None, allowed: str) -> None:
    with pytest.raises(BadParameter, check=has_code("bad-producer-headers")) as refused:
        parse(*headers)
    assert refused.value.fields == {"parameter": parameter, "value": value, "allowed": allowed}


def test_epoch_and_sequence_are_decimal_digits_without_leading_zeros() -> None:
    wrong = ["", " 1", "1 ", "+1", "-1", "-0", "00", "01", "1.0", "1e3", "1abc", "0x1", "1_0", "²", "\u0661", OVER]
    for name in ("Epoch", "Sequence"):
        for value in wrong:
            with pytest.raises(BadParameter, check=has_code("bad-producer-headers")) as refused:
                parse(*but(**{name: value}))
            fields = {"parameter": f"Producer-{name}", "value": value, "allowed": ALLOWED_NUMBER}
            assert refused.value.fields == fields


@given(st.lists(st.tuples(st.sampled_from([GROUP, EPOCH, SEQUENCE, OVERLAP, DEADLINE]), st.text()), max_size=6))
def test_any_headers_are_parsed_or_refused_with_a_writable_error(headers: list[tuple[str, str]]) -> None:
    try:
        found = parse(*headers)
    except BadParameter as error:
        if error.code != "bad-producer-headers":
            raise
        json.dumps(error.fields).encode()
        error.detail.encode()
    else:
        assert found is None or {GROUP, EPOCH, SEQUENCE} <= {name for name, _ in headers}


def test_numbered_events_need_a_partition() -> None:
    for name in [GROUP, EPOCH, SEQUENCE, OVERLAP, DEADLINE]:
        with pytest.raises(BadParameter, check=has_code("partition-required")) as refused:
            refuse_numbers({name: ""}, "order.placed")
        assert refused.value.fields == {"event_type": "order.placed"}
        refuse_numbers({"Producer": "x"}, "order.placed")


IN_PATHS: list[tuple[Callable[[str], Any], str, str, dict[str, Any], list[str]]] = [
    (lambda text: check_group(text, "producer_group"), "producer_group", ALLOWED_GROUP,
     {text: text for text in ("a:b~c", "...", ".a", "a.")}, ["a b", ".", "..", "..\n"]),
    (lambda text: parse_number(text, "first"), "first", ALLOWED_NUMBER,
     {"7": 7}, ["", "x", "07", "9007199254740992", "9" * 40]),
    (parse_after, "after", ALLOWED_GROUP, {"a:b": "a:b"}, ["", "\0", "a b", "x" * 129]),
]  # fmt: skip


@pytest.mark.parametrize(("read", "parameter", "allowed", "good", "bad"), IN_PATHS, ids=["group", "number", "after"])
def test_text_of_a_path_or_query_is_read_as_in_a_header(
    read: Callable[[str], Any], parameter: str, allowed: str, good: dict[str, Any], bad: list[str]
) -> None:
    assert {text: read(text) for text in good} == good
    for text in bad:
        with pytest.raises(BadParameter) as refused:
            read(text)
        assert refused.value.fields == {"parameter": parameter, "value": text[:80], "allowed": allowed}
        assert type(refused.value) is BadParameter
    assert parse_after(None) == ""


# Envelopes.

BY = {"group": "g", "epoch": 3, "sequence": 7}


def envelope(producer: Any = BY, events: str = '[{"a":1}]', more: str = "") -> bytes:
    return f'{{"producer":{json.dumps(producer)},"events":{events}{more}}}'.encode()


def test_envelope_has_a_producer_and_unchecked_events_byte_for_byte_in_any_spaces_and_order() -> None:
    by, events = parse_envelope(envelope(events='[{"a": 1.50} , {"b":"]"}]'))
    assert by == ProducerHeaders("g", AT)
    assert [bytes(each.data) for each in events] == [b'{"a": 1.50}', b'{"b":"]"}']
    more = BY | {"overlap": "trim", "deadline_ms": 5}
    assert parse_envelope(envelope(more))[0] == ProducerHeaders("g", AT, trims=True, deadline_ms=5)
    assert parse_envelope(envelope(BY | {"deadline_ms": None, "overlap": "reject"}))[0] == ProducerHeaders("g", AT)

    """The publishing checks them, as events of any other body."""
    events = parse_envelope(envelope(events='[1,{"a":1,"a":2}]'))[1]
    assert [bytes(each.data) for each in events] == [b"1", b'{"a":1,"a":2}']
    assert parse_envelope(envelope(events="[]"))[1] == []

    for spaces in ["", " ", "\n\t"]:
        text = spaces.join(["{", '"events"', ":", '[{"a":1}]', ',"producer":', json.dumps(BY, indent=2), "}"])
        by, events = parse_envelope(text.encode())
        assert (by, [bytes(each.data) for each in events]) == (ProducerHeaders("g", AT), [b'{"a":1}'])


BAD_ENVELOPES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "the body is not valid JSON: it ends in the middle"),
    "cut off": (envelope()[:-1], "the body is not valid JSON: it ends in the middle"),
    "no UTF-8": (b"\xff", "the body is not valid JSON: byte 1 of it (FF) is not UTF-8"),
    "too deep": (envelope(events="[" * 100_000), "the body is not valid JSON: it is nested too deeply"),
    "an array": (b"[]", "Expected `object`, got `array`"),
    "no producer": (b'{"events":[]}', "Object missing required field `producer`"),
    "no events": (b'{"producer":' + json.dumps(BY).encode() + b"}", "Object missing required field `events`"),
    "no group": (envelope({"epoch": 0, "sequence": 0}), "Object missing required field `group` - at `$.producer`"),
    "another member": (envelope(more=',"x":1'), "Object contains unknown field `x`"),
    "a member twice": (envelope(more=',"events":[]'), "the body: the key 'events' stands twice in one object"),
    "a number twice": (envelope().replace(b'"epoch": 3', b'"epoch": 3, "epoch": 4'),
        "the body: the key 'epoch' stands twice in one object"),
    "a number as text": (envelope(BY | {"epoch": "3"}), "Expected `int`, got `str` - at `$.producer.epoch`"),
    "a fraction": (envelope(BY | {"epoch": 3.0}), "Expected `int`, got `float` - at `$.producer.epoch`"),
    "true": (envelope(BY | {"epoch": True}), "Expected `int`, got `bool` - at `$.producer.epoch`"),
    "another overlap": (envelope(BY | {"overlap": "x"}), "Invalid enum value 'x' - at `$.producer.overlap`"),
    "events that are no array": (envelope(events="{}"), "its events are an array: they begin with ["),
}  # fmt: skip


@pytest.mark.parametrize(("body", "reason"), BAD_ENVELOPES.values(), ids=BAD_ENVELOPES)
def test_malformed_envelope_is_refused_without_an_event(body: bytes, reason: str) -> None:
    with pytest.raises(MalformedRequest, check=has_code("malformed-batch")) as refused:
        parse_envelope(body)
    assert refused.value.fields.keys() == {"reason"}
    assert refused.value.detail == refused.value.reason
    assert refused.value.reason.endswith(reason)


@pytest.mark.parametrize(
    ("member", "value", "name", "allowed"),
    [
        ("group", "", GROUP, ALLOWED_GROUP),
        ("group", "a b", GROUP, ALLOWED_GROUP),
        ("epoch", -1, EPOCH, ALLOWED_NUMBER),
        ("epoch", 2**53, EPOCH, ALLOWED_NUMBER),
        ("sequence", 2**64, SEQUENCE, ALLOWED_NUMBER),
        ("deadline_ms", -1, DEADLINE, ALLOWED_TIME),
        ("deadline_ms", 3_600_001, DEADLINE, ALLOWED_TIME),
    ],
)
def test_producer_of_an_envelope_has_the_rules_of_headers(member: str, value: Any, name: str, allowed: str) -> None:
    with pytest.raises(BadParameter, check=has_code("bad-producer-headers")) as refused:
        parse_envelope(envelope(BY | {member: value}))
    assert refused.value.fields == {"parameter": name, "value": str(value), "allowed": allowed}


def test_envelope_has_as_many_events_as_any_body() -> None:
    most = "[" + ",".join(["{}"] * EVENTS_MAX) + "]"
    assert len(parse_envelope(envelope(events=most))[1]) == EVENTS_MAX
    with pytest.raises(RequestTooLarge, check=has_code("too-many-events")) as refused:
        parse_envelope(envelope(events=most[:-1] + ",{}]"))
    assert refused.value.fields == {"limit": EVENTS_MAX}


@given(st.binary(max_size=40) | st.text(alphabet='{}[]",:producvents0', max_size=60).map(str.encode))
def test_any_bytes_are_parsed_or_refused_with_a_writable_error(body: bytes) -> None:
    for read in (parse_envelope, parse_claim):
        try:
            read(body)
        except Invalid as error:
            json.dumps(error.fields).encode()
            error.detail.encode()


# Claims.


def test_claim_is_parsed() -> None:
    rows: list[tuple[bytes, EpochClaim]] = [
        (b"", EpochClaim()),
        (b" \n", EpochClaim()),
        (b"{}", EpochClaim()),
        (b'{"epoch":"next"}', EpochClaim()),
        (b'{"epoch":0}', EpochClaim(epoch=0)),
        (b'{"epoch":9007199254740991}', EpochClaim(epoch=2**53 - 1)),
        (b'{"starting_sequence":0}', EpochClaim(starting=0)),
        (b'{"starting_sequence":null,"claim_id":null,"if_epoch":null}', EpochClaim()),
        (b'{"claim_id":"6f1b2c1e-0000-4000-8000-000000000000"}',
         EpochClaim(claim_id="6f1b2c1e-0000-4000-8000-000000000000")),
        (b'{"if_epoch":0,"pinned":true}', EpochClaim(if_epoch=0, is_pinned=True)),
    ]  # fmt: skip
    for body, claim in rows:
        assert parse_claim(body) == claim


def test_number_or_id_of_a_claim_out_of_range_is_named() -> None:
    rows: list[tuple[str, int]] = [
        ("epoch", -1), ("epoch", 2**53), ("starting_sequence", -1), ("if_epoch", 2**53),
    ]  # fmt: skip
    for parameter, value in rows:
        with pytest.raises(BadParameter) as refused:
            parse_claim(json.dumps({parameter: value}).encode())
        allowed = "a whole number from 0 to 9007199254740991"
        assert refused.value.fields == {"parameter": parameter, "value": value, "allowed": allowed}

    for text in ["", "a b", "x" * 129, "ü"]:
        with pytest.raises(BadParameter) as refused:
            parse_claim(json.dumps({"claim_id": text}).encode())
        assert refused.value.fields == {"parameter": "claim_id", "value": text[:80], "allowed": ALLOWED_GROUP}


MEMBERS = "epoch (a number, or next), starting_sequence, claim_id, if_epoch, pinned"
BAD_CLAIMS: dict[str, tuple[bytes, str, str]] = {
    "cut off": (b"{", "the body is not JSON: it ends in the middle", "JSON"),
    "no UTF-8": (b"\xff", "the body is not JSON: byte 1 of it (FF) is not UTF-8", "JSON"),
    "too deep": (b"[" * 100_000, "the body is not JSON: it is nested too deeply", "JSON"),
    "a member twice": (b'{"pinned":true,"pinned":false}', "the body: the key 'pinned' stands twice in one object",
        "strict JSON"),
    "an array": (b"[]", f"the body: Expected `object`, got `array`; allowed: {MEMBERS}", MEMBERS),
    "another member": (b'{"x":1}', f"the body: Object contains unknown field `x`; allowed: {MEMBERS}", MEMBERS),
    "a fraction": (b'{"if_epoch":1.0}',
        f"the body: Expected `int | null`, got `float` - at `$.if_epoch`; allowed: {MEMBERS}", MEMBERS),
    "another word": (b'{"epoch":"last"}',
        f"the body: Invalid enum value 'last' - at `$.epoch`; allowed: {MEMBERS}", MEMBERS),
}  # fmt: skip


@pytest.mark.parametrize(("body", "detail", "allowed"), BAD_CLAIMS.values(), ids=BAD_CLAIMS)
def test_malformed_claim_is_refused_with_the_reason(body: bytes, detail: str, allowed: str) -> None:
    with pytest.raises(BadParameter) as refused:
        parse_claim(body)
    assert refused.value.detail == detail
    assert refused.value.fields == {"parameter": "body", "allowed": allowed}


# Answers.


def test_result_has_offsets_or_ranges() -> None:
    numbers = SequenceRange(1, 2, 3)
    one = {"outcome": "appended", "epoch": 0, "sequence": {"first": 1, "last": 2, "next": 3}}
    offsets = one | {"offsets": {"first": 4, "last": 5}}
    ranges = one | {"ranges": [{"first": 4, "last": 4}, {"first": 6, "last": 6}]}

    assert msgspec.to_builtins(PublishedBatch("appended", 0, numbers, OffsetSpan(4, 5))) == offsets
    assert (
        msgspec.to_builtins(PublishedBatch("appended", 0, numbers, None, [OffsetSpan(4, 4), OffsetSpan(6, 6)]))
        == ranges
    )
    assert msgspec.json.encode(OutcomeRecord(3, None, [])) == b'{"epoch":3,"stored":null,"ranges":[]}'


# Staged uploads.

OPEN = {"producer_group": "g", "batch": 7, "query": "q"}
PART = {"upload": "u", "chunks": 2, "events": 9, "digest": "0" * 32}


def encode(body: Any) -> bytes:
    return json.dumps(body).encode()


def test_requests_of_staged_publishing_are_parsed() -> None:
    assert parse_open(encode(OPEN | {"batch": NUMBER_MAX})) == OpenUpload("g", NUMBER_MAX, "q")
    assert parse_publish(encode({"query": "q", "uploads": [PART]})) == PublishBatch(
        "q", [UploadPart("u", 2, 9, "0" * 32)]
    )


STAGED: list[tuple[Callable[[bytes], Any], Any, str]] = [
    *((parse_open, OPEN | change, parameter) for change,
        parameter in [({"producer_group": "a b"}, "producer_group"), ({"batch": -1}, "batch"),
        ({"batch": NUMBER_MAX + 1}, "batch"), ({"batch": "7"}, "body"), ({"query": ""}, "query"),
        ({"query": "a b"}, "query"), ({"query": "q" * 201}, "query"), ({"more": 1}, "body")]),
    *((parse_publish, {"query": "q", "uploads": [PART | change]}, parameter) for change,
        parameter in [({"chunks": -1}, "chunks"), ({"events": -1}, "events"), ({"digest": "0" * 31}, "digest"),
        ({"digest": "X" * 32}, "digest"), ({"more": 1}, "body")]),
]  # fmt: skip


@pytest.mark.parametrize(("read", "body", "parameter"), STAGED)
def test_wrong_parameter_of_staged_publishing_is_named(read: Callable[[bytes], Any], body: Any, parameter: str) -> None:
    with pytest.raises(BadParameter) as refused:
        read(encode(body))
    assert refused.value.parameter == parameter


def test_body_of_staged_publishing_is_strict_json() -> None:
    rows: list[bytes] = [b"", b"[]", b"{", b'{"query":"q","query":"r","uploads":[]}', b'{"query":"\xff"}']
    for body in rows:
        with pytest.raises(BadParameter, match="body"):
            parse_publish(body)


def test_batch_has_a_limited_number_of_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "UPLOADS_MAX", 1)
    with pytest.raises(BadParameter, match="up to 1"):
        parse_publish(encode({"query": "q", "uploads": [PART, PART]}))
