"""Events are validated, placed and completed before they are appended; the first bad one refuses all."""

import json
from typing import Any

import pytest

from penstock.core.events.event import NewEvent
from penstock.core.events.partitioning import hash_partition
from penstock.core.registry.event_type import StoredFeed
from penstock.errors import (
    EventTooLarge,
    InvalidEvent,
    MalformedEvent,
    PartitionNotFound,
    PenstockError,
    PublishingRestricted,
)
from penstock.hub.batches.batches import InvalidUploadLine, separate_invalid
from penstock.hub.log import publish
from penstock.hub.log.publish import NewEvents, Prepared, Unpublishable, parse_headers
from penstock.storage.log.events import DELETION
from penstock.testing.clock import START_AT
from penstock.testing.factories import a_business_event, a_data_event, a_new_event, an_event
from tests.failing import has_code
from tests.unit.hub.feeds import NAME, a_feed

COUNT = 16
LARGE = {"text": "x" * 999_000}
UNDEFINED, BUSINESS, DATA = a_feed(), a_feed(category="business"), a_feed(category="data")
COMPACTED = a_feed(COUNT, category="business", cleanup_policy="compact")
ASKED = a_feed(2, partition_strategy="user_defined")


def prepare(feed: StoredFeed, *events: NewEvent, **how: Any) -> Prepared:
    return publish.prepare(feed, NewEvents(events, **how), START_AT)


def prepare_row(feed: StoredFeed, event: NewEvent, **how: Any) -> Any:
    """Return the row of an event: key, kind, headers, data."""
    ((row,),) = prepare(feed, event, **how).rows.values()
    return row


def business(number: int = 1, **metadata: Any) -> NewEvent:
    return a_new_event(a_business_event(number, metadata=metadata))


def test_events_keep_their_order_within_a_partition() -> None:
    prepared = prepare(ASKED, *[a_new_event({"n": n}, partition=n % 2) for n in range(6)])

    assert (prepared.events, prepared.partition_ids) == (6, [100, 101])
    assert {each: [row[3] for row in rows] for each, rows in prepared.rows.items()} == {
        0: [b'{"n":0}', b'{"n":2}', b'{"n":4}'],
        1: [b'{"n":1}', b'{"n":3}', b'{"n":5}'],
    }


def test_undefined_event_is_kept_byte_for_byte_without_its_line_ends() -> None:
    written = b'{ "metadata" : { "eid" : 1, "flow_id" : "" },\r\n\t"n" : 1.0 }'

    assert prepare_row(UNDEFINED, a_new_event(written), flow_id="f") == (
        None,
        None,
        None,
        written.replace(b"\r\n", b""),
    )


def test_own_headers_are_kept_as_json() -> None:
    headers = {"h": 'a "ü"', "ce_type": "paid"}

    assert json.loads(prepare_row(UNDEFINED, a_new_event(headers=headers))[2]) == headers
    assert prepare_row(UNDEFINED, a_new_event(headers={}))[2] is None


CUSTOMER = a_data_event(data_type="customer")


@pytest.mark.parametrize(
    ("feed", "event", "headers", "kind"),
    [
        (UNDEFINED, an_event(), None, None),
        (UNDEFINED, an_event(), {"ce_type": "paid"}, "paid"),
        (UNDEFINED, an_event(), {"ce_type": NAME}, None),
        (UNDEFINED, {"data_type": "customer"}, None, None),
        (DATA, CUSTOMER, None, "customer"),
        (DATA, CUSTOMER, {"h": "1"}, "customer"),
        (DATA, CUSTOMER, {"ce_type": "paid"}, "paid"),
    ],
    ids=["none", "header", "own name", "member of another category", "data type", "other header", "header first"],
)
def test_kind_of_an_event_is_that_of_its_header_or_data_type(
    feed: StoredFeed, event: dict[str, Any], headers: dict[str, str] | None, kind: str | None
) -> None:
    assert prepare_row(feed, a_new_event(event, headers=headers))[1] == kind


# Metadata

SERVER_MEMBERS = {
    "received_at": "2020-01-01T00:00:00.000Z",
    "version": "7.0.0",
    "published_by": "somebody",
    "event_type": "another.name",
}


@pytest.mark.parametrize("metadata", ["metadata", "met\\u0061data"], ids=["plain name", "escaped name"])
@pytest.mark.parametrize("name", sorted(SERVER_MEMBERS))
def test_forged_member_of_the_metadata_is_replaced(name: str, metadata: str) -> None:
    feed = a_feed(1, category="business")
    raw = json.dumps(a_business_event(metadata={name: "forged"}) | {"after": {name: "kept"}})

    prepared = prepare(feed, NewEvent.of(raw.replace('"metadata"', f'"{metadata}"').encode()))

    stored = prepared.rows[0][0][3]
    assert b"forged" not in stored
    assert stored.count(f'"{name}"'.encode()) == 2
    assert json.loads(stored)["after"] == {name: "kept"}


@pytest.mark.parametrize("category", ["business", "data"])
@pytest.mark.parametrize("written", [{}, SERVER_MEMBERS], ids=["new", "written by a hub"])
def test_metadata_is_completed_and_members_that_a_hub_has_written_replaced(
    category: str, written: dict[str, str]
) -> None:
    make = a_business_event if category == "business" else a_data_event
    event = make(metadata=written | {"partition": "1"})
    feed = a_feed(2, category=category, partition_strategy="user_defined")

    prepared = prepare(feed, a_new_event(event))

    assert [*prepared.rows] == [1]
    members = dict(json.loads(prepared.rows[1][0][3], object_pairs_hook=lambda pairs: pairs))["metadata"]
    assert len({name for name, _ in members}) == len(members)
    assert dict(members) == event["metadata"] | {
        "received_at": "2023-11-14T22:13:20.000Z",
        "version": "1.0.0",
        "published_by": "unauthenticated",
        "event_type": NAME,
        "partition": "1",
    }


@pytest.mark.parametrize("strict", [False, True])
def test_metadata_may_name_its_own_event_type_and_partition(strict: bool) -> None:
    row = prepare_row(BUSINESS, business(event_type=NAME, partition="5"), strict=strict)

    metadata = json.loads(row[3])["metadata"]
    assert (metadata["event_type"], metadata["partition"]) == (NAME, "0")


def test_flow_id_of_the_request_goes_to_events_without_one() -> None:
    events = [a_new_event(a_data_event(metadata={"flow_id": own} if own else {})) for own in ("a", "", "b", "")]

    (rows,) = prepare(DATA, *events, flow_id="f").rows.values()

    assert [json.loads(row[3])["metadata"]["flow_id"] for row in rows] == ["a", "f", "b", "f"]
    for empty in (None, ""):
        assert "flow_id" not in json.loads(prepare_row(BUSINESS, business(flow_id=""), flow_id=empty)[3])["metadata"]


# Refusals

KIND_RULE = "must be 1 to 1024 characters without control characters, not "
KINDS = {"": "''", "a\x00": r"'a\x00'", "k" * 1025: "1025"}
REFUSED: dict[str, tuple[StoredFeed, NewEvent, dict[str, Any], str, str]] = {
    "too large": (ASKED, a_new_event(LARGE, partition=0), {}, "event-too-large", ""),
    "key with a line end": (ASKED, a_new_event(key="a\nb", partition=0), {}, "invalid-event", "a key has no control"),
    **{f"key in a header, {name}": (
        feed, a_new_event({"n": 1}, headers={"ce_partitionkey": "a\n"}), {}, "invalid-event",
        "header 'ce_partitionkey': a key has no control characters",
    ) for name, feed in (
        ("random", UNDEFINED), ("hash", a_feed(partition_strategy="hash", partition_key_fields=["n"])))},
    "header without a name": (ASKED, a_new_event(headers={"": "x"}, partition=0), {}, "invalid-event", "header ''"),
    "no such partition": (ASKED, a_new_event(partition=2), {}, "partition-refused", "has partitions 0 to 1"),
    **{f"kind {kind[:3]!r} of the data": (
        DATA, a_new_event(a_data_event(data_type=kind)), {}, "invalid-event", f"#/data_type: {KIND_RULE}{told}",
    ) for kind, told in KINDS.items()},
    **{f"kind {kind[:3]!r} of a header": (
        DATA, a_new_event(a_data_event(), headers={"ce_type": kind}), {}, "invalid-event",
        f"header 'ce_type': {KIND_RULE}{told}",
    ) for kind, told in KINDS.items()},
    **{f"compaction key {key[:3]!r}, {deletes=}": (
        COMPACTED, business(partition_compaction_key=key), {"deletes": deletes}, "partition-refused",
        "#/metadata/partition_compaction_key: a key has ",
    ) for key in ("a\0", "k" * 1025) for deletes in (False, True)},
    **{f"no metadata, {feed.event_type.category}": (
        feed, a_new_event(), {}, "invalid-event", "required key [metadata] not found") for feed in (BUSINESS, DATA)},
    **{f"strictly, {member}": (
        BUSINESS, business(**{member: value}), {"strict": True}, "invalid-event",
        "#/metadata/event_type: another.name is not a valid enum value" if member == "event_type"
        else f"#/metadata: extraneous key [{member}] is not permitted",
    ) for member, value in SERVER_MEMBERS.items()},
    **{f"metadata {members}, {strict=}": (
        BUSINESS, business(**members), {"strict": strict}, "invalid-event", "#/metadata",
    ) for members in ({"more": 1}, {"partition": 5}, {"partition_compaction_key": "k"}) for strict in (False, True)},
}  # fmt: skip


@pytest.mark.parametrize(("feed", "event", "how", "code", "reason"), REFUSED.values(), ids=REFUSED)
def test_bad_event_refuses_all_and_is_named_by_line(
    feed: StoredFeed, event: NewEvent, how: dict[str, Any], code: str, reason: str
) -> None:
    for lines in (None, [5]):
        with pytest.raises((InvalidEvent, EventTooLarge), check=has_code(code)) as refused:
            prepare(feed, event, lines=lines, **how)

        assert refused.value.line == (5 if lines else 1)
        assert reason in refused.value.fields.get("reason", "")


def test_size_of_an_event_is_limited_to_the_byte() -> None:
    event = b'{"x":"%b"}' % (b"x" * 998_992)

    assert prepare(UNDEFINED, NewEvent.of(event)).events == 1
    with pytest.raises(EventTooLarge) as refused:
        prepare(UNDEFINED, NewEvent.of(event + b" "))
    assert refused.value.fields == {"line": 1, "size": 999_001, "limit": 999_000}


PHASES: list[dict[str, tuple[NewEvent, str]]] = [
    {"parsed": (NewEvent.of(b'{"n":1,"n":2}', partition=0), "malformed-event")},
    {
        "valid": (a_new_event(partition=0), "invalid-event"),
        "small": (a_new_event(a_business_event(2) | LARGE, partition=0), "event-too-large"),
    },
    {"placed": (a_new_event(a_business_event(3), partition=2), "partition-refused")},
    {"described": (a_new_event(a_business_event(4), partition=0, headers={"": "x"}), "invalid-event")},
]
"""Phases of a publish, as in Nakadi: each is done with all events before the next one begins."""


@pytest.mark.parametrize(
    ("events", "line", "code"),
    [
        pytest.param([*order, order[0]], order.index(bad) + 1, code, id=f"{name} before {other}")
        for at, phase in enumerate(PHASES)
        for name, (bad, code) in phase.items()
        for later, others in enumerate(PHASES[at:], at)
        for other, (worse, _) in others.items()
        if name != other
        for order in ([[bad, worse]] if at == later else [[worse, bad]])
    ],
)
def test_earlier_phase_refuses_all_whichever_event_comes_first(events: list[NewEvent], line: int, code: str) -> None:
    feed = a_feed(2, category="business", partition_strategy="user_defined")

    with pytest.raises((InvalidEvent, EventTooLarge), check=has_code(code)) as refused:
        prepare(feed, *events)

    assert refused.value.line == line


# Deletions are checked for size, partition and key only, as in Nakadi.


def a_deletion(key: Any = "k", **members: Any) -> NewEvent:
    return a_new_event({"metadata": {"partition_compaction_key": key}} | members)


@pytest.mark.parametrize("policy", ["compact", "compact_and_delete"])
@pytest.mark.parametrize("category", ["business", "data"])
def test_deletion_is_a_mark_under_its_key_whose_metadata_the_hub_has_written(category: str, policy: str) -> None:
    feed = a_feed(COUNT, category=category, cleanup_policy=policy)
    written = {"version": 1, "eid": "e", "published_by": "another", "received_at": "1970", "event_type": "other"}
    event = a_new_event({"metadata": {"partition_compaction_key": "k"} | written}, headers={"h": "1"})

    key, kind, headers, data = prepare_row(feed, event, flow_id="f", strict=True, deletes=True, published_by="shop")

    assert (key, kind, headers) == ("k", DELETION, None)
    metadata = json.loads(data)["metadata"]
    assert metadata.pop("received_at") != "1970"
    assert metadata.pop("partition").isdecimal()
    assert metadata == {
        "partition_compaction_key": "k",
        "eid": "e",
        "event_type": feed.name,
        "published_by": "shop",
        "version": "1.0.0",
        "flow_id": "f",
    }


def test_deletion_is_not_held_to_the_schema() -> None:
    schema = {"type": "json_schema", "schema": '{"required": ["n"], "properties": {"n": {"type": "string"}}}'}
    feed = a_feed(category="business", cleanup_policy="compact", compatibility_mode="compatible", schema=schema)

    assert prepare(feed, a_deletion(n=5, more=1), deletes=True).events == 1
    with pytest.raises(InvalidEvent):
        prepare(feed, a_deletion(n=5, more=1))


def test_deletion_falls_where_the_event_fell() -> None:
    compacted = {"category": "business", "cleanup_policy": "compact"}
    by_field = a_feed(COUNT, partition_strategy="hash", partition_key_fields=["order_id"], **compacted)
    asked = a_feed(COUNT, partition_strategy="user_defined", **compacted)
    to_11 = a_new_event({"metadata": {"partition_compaction_key": "k", "partition": "11"}})

    assert prepare(by_field, a_deletion(order_id=7), deletes=True).rows.keys() == {hash_partition(("7",), COUNT)}
    assert prepare(asked, to_11, deletes=True).rows.keys() == {11}
    for feed, reason in ((by_field, "'order_id' is missing"), (asked, "has partitions 0 to 15")):
        with pytest.raises(InvalidEvent, check=has_code("partition-refused"), match=reason):
            prepare(feed, a_deletion(), deletes=True)


@pytest.mark.parametrize(
    "event", [{}, {"metadata": None}, {"metadata": {}}, *[
        {"metadata": {"partition_compaction_key": key}} for key in ("", 5, "a\nb", "x" * 1_025)]],
    ids=lambda event: str(event)[:60],
)  # fmt: skip
def test_deletion_without_a_key_is_refused(event: dict[str, Any]) -> None:
    with pytest.raises(InvalidEvent, check=has_code("partition-refused")) as refused:
        prepare(COMPACTED, a_deletion(), a_new_event(event), lines=[3, 8], deletes=True)
    assert refused.value.line == 8


@pytest.mark.parametrize(
    ("feed", "events", "kind"),
    [
        *[(feed, [a_deletion(**LARGE)], PublishingRestricted) for feed in (UNDEFINED, BUSINESS, DATA)],
        (UNDEFINED, [a_deletion(), a_new_event(b"{")], MalformedEvent),
        (COMPACTED, [a_deletion(), a_deletion(**LARGE)], EventTooLarge),
        (COMPACTED, [a_new_event({}), a_deletion(**LARGE)], EventTooLarge),
    ],
    ids=["undefined", "business", "data", "malformed first", "too large", "too large before no key"],
)
def test_deletion_is_parsed_then_held_to_its_event_type_then_measured(
    feed: StoredFeed, events: list[NewEvent], kind: type[PenstockError]
) -> None:
    with pytest.raises(kind) as refused:
        prepare(feed, *events, deletes=True)
    if kind is not PublishingRestricted:
        assert refused.value.line == 2


# Headers of an outbox row


@pytest.mark.parametrize(
    ("text", "headers"),
    [('{ "a" : "1" }', {"a": "1"}), ('{"a":"1","b":"ü"}', {"a": "1", "b": "ü"}), ("{}", {}), (None, None)],
)
def test_headers_of_an_outbox_row_are_an_object_of_strings(text: str | None, headers: dict[str, str] | None) -> None:
    assert parse_headers(text) == headers


@pytest.mark.parametrize("text", ["[]", "x", '{"a":1}', '{"a":null}', "", "null", '{"a":"1","a":"2"}'])
def test_other_headers_of_an_outbox_row_are_refused(text: str) -> None:
    with pytest.raises(InvalidEvent, match="'a' stands twice" if '"2"' in text else "not a JSON object of strings"):
        parse_headers(text)


# Batches that may be stored already

ONCE = a_feed(2, partition_strategy="user_defined", options={"publishing": "exactly-once"})
FIT = NewEvents([a_new_event(partition=1)])
UNFIT: dict[str, tuple[NewEvents, str]] = {
    "key with a line end": (NewEvents([a_new_event(key="a\nb", partition=1)]), "invalid-event"),
    "too large": (NewEvents([a_new_event(LARGE, partition=1)]), "event-too-large"),
    "another partition": (FIT._replace(partition=0), "partition-refused"),
    "deletion": (FIT._replace(deletes=True), "undeletable-events"),
}


@pytest.mark.parametrize("exact", [True, False], ids=["numbered", "plain"])
def test_fit_batch_is_prepared_whether_it_is_numbered_or_not(exact: bool) -> None:
    found = publish.prepare_or_refuse(ASKED, FIT, START_AT, exact=exact)

    assert found == publish.prepare(ASKED, FIT, START_AT)
    assert publish.find_refusal(found, exact=exact) is None


@pytest.mark.parametrize(("handed", "code"), UNFIT.values(), ids=UNFIT)
def test_unfit_batch_is_refused_unless_it_is_numbered(handed: NewEvents, code: str) -> None:
    for exact in (True, False):
        found = publish.prepare_or_refuse(ASKED, handed, START_AT, exact=exact)

        assert isinstance(found, Unpublishable)
        assert (found.feed, found.error.code) == (ASKED, code)
        assert publish.find_refusal(found, exact=exact) is (None if exact else found.error)
        assert publish.find_refusal(found, exact=False) is found.error


@pytest.mark.parametrize("exact", [True, False], ids=["numbered", "plain"])
def test_malformed_event_or_unknown_partition_is_refused_at_once(exact: bool) -> None:
    with pytest.raises(MalformedEvent):
        publish.prepare_or_refuse(ASKED, NewEvents([a_new_event(b"{", partition=1)]), START_AT, exact=exact)

    found = publish.prepare_or_refuse(ASKED, FIT._replace(partition=2), START_AT, exact=exact)
    assert isinstance(publish.find_refusal(found, exact=exact), PartitionNotFound)


def test_exactly_once_event_type_takes_numbered_batches_only() -> None:
    plain = publish.prepare_or_refuse(ONCE, FIT, START_AT)

    assert isinstance(plain, Unpublishable)
    assert isinstance(publish.find_refusal(plain, exact=False), PublishingRestricted)
    assert isinstance(publish.prepare_or_refuse(ONCE, FIT, START_AT, exact=True), Prepared)


def test_reason_of_a_schema_violation_is_left_out_on_demand() -> None:
    feed = a_feed(1, schema={"type": "json_schema", "schema": '{"type":"object","required":["a"]}'})
    reasons = []
    for explains in (True, False):
        found = publish.prepare_or_refuse(feed, NewEvents([a_new_event({})]), START_AT, exact=True, explains=explains)
        assert isinstance(found, Unpublishable)
        reasons.append(found.error.reason)

    assert "required key [a] not found" in reasons[0]
    assert reasons[1] == "is not what the schema allows"


# Sifting: bad events are set apart on demand


def test_sifting_sets_each_bad_event_apart_by_line() -> None:
    feed = a_feed(2, partition_strategy="user_defined", schema={"type": "json_schema", "schema": '{"required": ["n"]}'})

    def event(data: bytes, **others: Any) -> NewEvent:
        return NewEvent.of(data, **{"partition": 0} | others)

    good = [event(b'{"n":1}'), event(b'{"n":2}', partition=1)]
    assert separate_invalid(feed, NewEvents(good), START_AT) == (NewEvents(good), ())
    bad = [
        event(b'{"m":1}', key="k", headers={"h": "1"}),
        event(b"7"),
        event(b'{"n":1}', partition=2),
        event(b"{\xff}"),
    ]

    valid, rejected = separate_invalid(
        feed, NewEvents([bad[0], good[0], *bad[1:], good[1]], lines=[1, 2, 4, 5, 6, 9]), START_AT
    )

    assert (valid.events, valid.lines) == (good, [2, 9])
    assert [(each.line, each.data) for each in rejected] == [
        (1, '{"m":1}'), (4, "7"), (5, '{"n":1}'), (6, "{\\xff}"),
    ]  # fmt: skip
    assert rejected[0] == InvalidUploadLine(1, rejected[0].reason, '{"m":1}', "k", {"h": "1"}, 0)
    assert "required" in rejected[0].reason
    assert all(each.reason for each in rejected)
