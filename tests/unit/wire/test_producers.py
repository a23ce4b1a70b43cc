"""What requests of idempotent producers say: headers, envelopes, claims; good ones, and what is told of bad ones."""

import json
from collections import defaultdict
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.claim import Claim
from penstock.core.event import EVENTS_MAX
from penstock.core.producer import Stamp
from penstock.errors import BadParameter, BadProducerHeaders, Invalid, MalformedBatch, PartitionRequired, TooManyEvents
from penstock.wire.producers import (
    DEADLINE,
    DEADLINE_MS_MAX,
    EPOCH,
    GROUP,
    NUMBER_MAX,
    OVERLAP,
    SEQUENCE,
    Found,
    Given,
    Numbers,
    Offsets,
    Result,
    check_group,
    parse_after,
    parse_claim,
    parse_envelope,
    parse_headers,
    parse_number,
    refuse_numbers,
)

WHOLE = {GROUP: "g", EPOCH: "3", SEQUENCE: "7"}
AT = Stamp(3, 7)
OVER = "9007199254740992"
ALLOWED_GROUP = "1 to 128 characters of A-Z, a-z, 0-9 and . _ : ~ -, but neither . nor .. alone"
ALLOWED_NUMBER = "a whole number from 0 to 9007199254740991 in decimal digits"
ALLOWED_TIME = "a whole number from 0 to 3600000 in decimal digits"


def parse(*headers: tuple[str, str]) -> Given | None:
    """Read headers, any of which may stand there more than once."""
    values = defaultdict(list)
    for name, value in headers:
        values[name].append(value)
    return parse_headers(dict(headers), lambda name: values[name])


GOOD: dict[str, tuple[dict[str, str], Given | None]] = {
    "none": ({}, None),
    "others": ({"Producer": "g", "Content-Type": "x"}, None),
    "the three": (WHOLE, Given("g", AT)),
    "the smallest numbers": (WHOLE | {EPOCH: "0", SEQUENCE: "0"}, Given("g", Stamp(0, 0))),
    "the largest numbers": (
        WHOLE | {EPOCH: str(NUMBER_MAX), SEQUENCE: str(NUMBER_MAX)},
        Given("g", Stamp(2**53 - 1, 2**53 - 1)),
    ),
    "the longest group": (WHOLE | {GROUP: "x" * 128}, Given("x" * 128, AT)),
    "all that a group may have": (WHOLE | {GROUP: "aZ09._:~-"}, Given("aZ09._:~-", AT)),
    "overlaps refused": (WHOLE | {OVERLAP: "reject"}, Given("g", AT)),
    "overlaps trimmed": (WHOLE | {OVERLAP: "trim"}, Given("g", AT, trims=True)),
    "no time": (WHOLE | {DEADLINE: "0"}, Given("g", AT, deadline_ms=0)),
    "as much time as there may be": (WHOLE | {DEADLINE: "3600000"}, Given("g", AT, deadline_ms=DEADLINE_MS_MAX)),
}


@pytest.mark.parametrize(("headers", "given"), GOOD.values(), ids=GOOD)
def test_headers_say(headers: dict[str, str], given: Given | None) -> None:
    assert parse(*headers.items()) == given


def but(**others: str | None) -> list[tuple[str, str]]:
    """Return good headers, with others in their place: those that are None are not there."""
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
} | {
    f"{name} {value!r}": (but(**{name: value}), f"Producer-{name}", value, ALLOWED_NUMBER)
    for name in ("Epoch", "Sequence")
    for value in ["", " 1", "1 ", "+1", "-1", "-0", "00", "01", "1.0", "1e3", "1abc", "0x1", "1_0", "²", "\u0661", OVER]
}  # fmt: skip


@pytest.mark.parametrize(("headers", "parameter", "value", "allowed"), BAD.values(), ids=BAD)
def test_headers_that_are_wrong_are_named(
    headers: list[tuple[str, str]], parameter: str, value: str | None, allowed: str
) -> None:
    with pytest.raises(BadProducerHeaders) as raised:
        parse(*headers)
    assert raised.value.fields == {"parameter": parameter, "value": value, "allowed": allowed}


@given(st.lists(st.tuples(st.sampled_from([GROUP, EPOCH, SEQUENCE, OVERLAP, DEADLINE]), st.text()), max_size=6))
def test_any_headers_are_read_or_refused_and_the_refusal_can_be_written(headers: list[tuple[str, str]]) -> None:
    try:
        found = parse(*headers)
    except BadProducerHeaders as error:
        json.dumps(error.fields).encode()
        error.detail.encode()
    else:
        assert found is None or {GROUP, EPOCH, SEQUENCE} <= {name for name, _ in headers}


@pytest.mark.parametrize("name", [GROUP, EPOCH, SEQUENCE, OVERLAP, DEADLINE])
def test_who_numbers_events_names_the_partition(name: str) -> None:
    with pytest.raises(PartitionRequired) as raised:
        refuse_numbers({name: ""}, "order.placed")
    assert raised.value.fields == {"event_type": "order.placed"}
    refuse_numbers({"Producer": "x"}, "order.placed")


def test_a_group_is_read_from_a_path_as_from_a_header() -> None:
    for text in ("a:b~c", "...", ".a", "a."):
        assert check_group(text) == text
    for text in ("a b", ".", "..", "..\n"):
        with pytest.raises(BadParameter) as raised:
            check_group(text, "producer_group")
        assert raised.value.fields == {"parameter": "producer_group", "value": text, "allowed": ALLOWED_GROUP}
        assert type(raised.value) is BadParameter


def test_a_number_in_a_path_is_named_by_the_parameter() -> None:
    assert parse_number("7", "first") == 7
    for text in ("", "x", "07", "9007199254740992", "9" * 40):
        with pytest.raises(BadParameter) as raised:
            parse_number(text, "first")
        assert raised.value.fields == {"parameter": "first", "value": text, "allowed": ALLOWED_NUMBER}


def test_a_list_begins_after_a_group_or_with_the_first() -> None:
    assert (parse_after(None), parse_after("a:b")) == ("", "a:b")
    for text in ("", "\0", "a b", "x" * 129):
        with pytest.raises(BadParameter) as raised:
            parse_after(text)
        assert raised.value.fields == {"parameter": "after", "value": text[:80], "allowed": ALLOWED_GROUP}


# Envelopes

BY = {"group": "g", "epoch": 3, "sequence": 7}


def envelope(producer: Any = BY, events: str = '[{"a":1}]', more: str = "") -> bytes:
    return f'{{"producer":{json.dumps(producer)},"events":{events}{more}}}'.encode()


def test_an_envelope_says_who_publishes_what() -> None:
    by, events = parse_envelope(envelope(events='[{"a": 1.50} , {"b":"]"}]'))
    assert by == Given("g", AT)
    assert [bytes(each.data) for each in events] == [b'{"a": 1.50}', b'{"b":"]"}'], "not a byte is changed"
    more = BY | {"overlap": "trim", "deadline_ms": 5}
    assert parse_envelope(envelope(more))[0] == Given("g", AT, trims=True, deadline_ms=5)
    assert parse_envelope(envelope(BY | {"deadline_ms": None, "overlap": "reject"}))[0] == Given("g", AT)


def test_what_an_envelope_holds_is_not_looked_at() -> None:
    """Whoever publishes them does: so all events are held to the same, whatever they came in."""
    assert [bytes(each.data) for each in parse_envelope(envelope(events='[1,{"a":1,"a":2}]'))[1]] == [
        b"1", b'{"a":1,"a":2}',
    ]  # fmt: skip
    assert parse_envelope(envelope(events="[]"))[1] == []


@pytest.mark.parametrize("spaces", ["", " ", "\n\t"])
def test_an_envelope_may_be_spaced_and_ordered_as_one_likes(spaces: str) -> None:
    by_whom = json.dumps(BY, indent=2)
    text = spaces.join(["{", '"events"', ":", '[{"a":1}]', ',"producer":', by_whom, "}"])
    by, events = parse_envelope(text.encode())
    assert (by, [bytes(each.data) for each in events]) == (Given("g", AT), [b'{"a":1}'])


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
    "a number twice": (
        envelope().replace(b'"epoch": 3', b'"epoch": 3, "epoch": 4'),
        "the body: the key 'epoch' stands twice in one object",
    ),
    "a number as text": (envelope(BY | {"epoch": "3"}), "Expected `int`, got `str` - at `$.producer.epoch`"),
    "a fraction": (envelope(BY | {"epoch": 3.0}), "Expected `int`, got `float` - at `$.producer.epoch`"),
    "true": (envelope(BY | {"epoch": True}), "Expected `int`, got `bool` - at `$.producer.epoch`"),
    "another overlap": (envelope(BY | {"overlap": "x"}), "Invalid enum value 'x' - at `$.producer.overlap`"),
    "events that are no array": (envelope(events="{}"), "Expected `array`, got `object` - at `$.events`"),
}


@pytest.mark.parametrize(("body", "reason"), BAD_ENVELOPES.values(), ids=BAD_ENVELOPES)
def test_an_envelope_that_is_none_is_told_so(body: bytes, reason: str) -> None:
    with pytest.raises(MalformedBatch) as raised:
        parse_envelope(body)
    assert raised.value.fields.keys() == {"reason"}, "no event is named"
    assert raised.value.detail == raised.value.fields["reason"]
    assert raised.value.fields["reason"].endswith(reason)


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
def test_what_an_envelope_says_of_its_producer_is_held_to_the_same(
    member: str, value: Any, name: str, allowed: str
) -> None:
    with pytest.raises(BadProducerHeaders) as raised:
        parse_envelope(envelope(BY | {member: value}))
    assert raised.value.fields == {"parameter": name, "value": str(value), "allowed": allowed}


def test_an_envelope_has_as_many_events_as_any_body() -> None:
    most = "[" + ",".join(["{}"] * EVENTS_MAX) + "]"
    assert len(parse_envelope(envelope(events=most))[1]) == EVENTS_MAX
    with pytest.raises(TooManyEvents) as raised:
        parse_envelope(envelope(events=most[:-1] + ",{}]"))
    assert raised.value.fields == {"limit": EVENTS_MAX}


@given(st.binary(max_size=40) | st.text(alphabet='{}[]",:producvents0', max_size=60).map(str.encode))
def test_any_bytes_are_an_envelope_or_a_claim_or_refused(body: bytes) -> None:
    for read in (parse_envelope, parse_claim):
        try:
            read(body)
        except Invalid as error:
            json.dumps(error.fields).encode()
            error.detail.encode()


# Claims


@pytest.mark.parametrize(
    ("body", "claim"),
    [
        (b"", Claim()),
        (b" \n", Claim()),
        (b"{}", Claim()),
        (b'{"owner_level":"next"}', Claim()),
        (b'{"owner_level":0}', Claim(level=0)),
        (b'{"owner_level":9007199254740991}', Claim(level=2**53 - 1)),
        (b'{"starting_sequence":0}', Claim(starting=0)),
        (b'{"starting_sequence":null,"claim_id":null,"if_epoch":null}', Claim()),
        (
            b'{"claim_id":"6f1b2c1e-0000-4000-8000-000000000000"}',
            Claim(claim_id="6f1b2c1e-0000-4000-8000-000000000000"),
        ),
        (b'{"if_epoch":0,"pinned":true}', Claim(if_epoch=0, is_pinned=True)),
    ],
)
def test_a_claim_says(body: bytes, claim: Claim) -> None:
    assert parse_claim(body) == claim


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b'{"owner_level":-1}', {"parameter": "owner_level", "value": -1}),
        (b'{"owner_level":9007199254740992}', {"parameter": "owner_level", "value": 2**53}),
        (b'{"starting_sequence":-1}', {"parameter": "starting_sequence", "value": -1}),
        (b'{"if_epoch":9007199254740992}', {"parameter": "if_epoch", "value": 2**53}),
    ],
)
def test_a_number_of_a_claim_that_is_out_of_range_is_named(body: bytes, fields: dict[str, Any]) -> None:
    with pytest.raises(BadParameter) as raised:
        parse_claim(body)
    assert raised.value.fields == fields | {"allowed": "a whole number from 0 to 9007199254740991"}


@pytest.mark.parametrize("text", ["", "a b", "x" * 129, "ü"])
def test_the_id_of_a_claim_that_is_none_is_named(text: str) -> None:
    with pytest.raises(BadParameter) as raised:
        parse_claim(json.dumps({"claim_id": text}).encode())
    assert raised.value.fields == {"parameter": "claim_id", "value": text[:80], "allowed": ALLOWED_GROUP}


MEMBERS = "owner_level (a number, or next), starting_sequence, claim_id, if_epoch, pinned"
BAD_CLAIMS: dict[str, tuple[bytes, str, str]] = {
    "cut off": (b"{", "the body is not JSON: it ends in the middle", "JSON"),
    "no UTF-8": (b"\xff", "the body is not JSON: byte 1 of it (FF) is not UTF-8", "JSON"),
    "too deep": (b"[" * 100_000, "the body is not JSON: it is nested too deeply", "JSON"),
    "a member twice": (
        b'{"pinned":true,"pinned":false}',
        "the body: the key 'pinned' stands twice in one object",
        "strict JSON",
    ),
    "an array": (b"[]", f"the body: Expected `object`, got `array`; allowed: {MEMBERS}", MEMBERS),
    "another member": (b'{"x":1}', f"the body: Object contains unknown field `x`; allowed: {MEMBERS}", MEMBERS),
    "a fraction": (
        b'{"if_epoch":1.0}',
        f"the body: Expected `int | null`, got `float` - at `$.if_epoch`; allowed: {MEMBERS}",
        MEMBERS,
    ),
    "another word": (
        b'{"owner_level":"last"}',
        f"the body: Invalid enum value 'last' - at `$.owner_level`; allowed: {MEMBERS}",
        MEMBERS,
    ),
}


@pytest.mark.parametrize(("body", "detail", "allowed"), BAD_CLAIMS.values(), ids=BAD_CLAIMS)
def test_a_claim_that_is_none_is_told_so(body: bytes, detail: str, allowed: str) -> None:
    with pytest.raises(BadParameter) as raised:
        parse_claim(body)
    assert raised.value.detail == detail
    assert raised.value.fields == {"parameter": "body", "allowed": allowed}


# Answers


def test_a_result_has_offsets_or_ranges() -> None:
    numbers = Numbers(1, 2, 3)
    one = {"outcome": "appended", "epoch": 0, "sequence": {"first": 1, "last": 2, "next": 3}}
    assert msgspec.to_builtins(Result("appended", 0, numbers, Offsets(4, 5))) == one | {
        "offsets": {"first": 4, "last": 5}
    }
    ranges = [Offsets(4, 4), Offsets(6, 6)]
    assert msgspec.to_builtins(Result("appended", 0, numbers, None, ranges)) == one | {
        "ranges": [{"first": 4, "last": 4}, {"first": 6, "last": 6}]
    }


def test_what_is_not_known_is_said_to_be() -> None:
    assert msgspec.json.encode(Found(3, None, [])) == b'{"epoch":3,"stored":null,"ranges":[]}'
