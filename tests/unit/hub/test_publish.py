import json
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from penstock.core.event import NewEvent
from penstock.core.event_type import Feed
from penstock.core.partitioning import hash_partition
from penstock.errors import (
    EventTooLarge,
    InvalidEvent,
    MalformedEvent,
    PartitionNotFound,
    PartitionRefused,
    PenstockError,
    PublishingRestricted,
    UndeletableEvents,
)
from penstock.hub import publish
from penstock.hub.publish import Handed, Prepared, Unfit, parse_headers
from penstock.storage.store import DELETION
from penstock.testing.clock import START_AT
from penstock.testing.factories import a_business_event, a_data_event, a_new_event, an_event
from tests.unit.hub.feeds import NAME, a_feed

COUNT = 16


def prepare(feed: Feed, events: Sequence[NewEvent], at: int, **how: Any) -> Prepared:
    return publish.prepare(feed, Handed(events, **how), at)


def placed(prepared: Prepared) -> dict[int, list[str | None]]:
    """Return the keys of what was prepared, by partition number."""
    return {partition: [row[0] for row in rows] for partition, rows in prepared.rows.items()}


def only(prepared: Prepared) -> Any:
    """Return the one row that was prepared: key, kind, headers, data."""
    ((row,),) = prepared.rows.values()
    return row


def hashed(fields: list[str], **definition: Any) -> Any:
    return a_feed(COUNT, partition_strategy="hash", partition_key_fields=fields, **definition)


def test_events_keep_their_order_within_a_partition() -> None:
    feed = a_feed(2, partition_strategy="user_defined")
    events = [a_new_event({"n": n}, partition=n % 2) for n in range(6)]

    prepared = prepare(feed, events, START_AT)

    assert prepared.events == 6
    assert {each: [row[3] for row in rows] for each, rows in prepared.rows.items()} == {
        0: [b'{"n":0}', b'{"n":2}', b'{"n":4}'],
        1: [b'{"n":1}', b'{"n":3}', b'{"n":5}'],
    }
    assert prepared.partition_ids == [100, 101]


def test_all_or_none_are_prepared_and_the_guilty_one_is_called_by_its_line() -> None:
    events = [a_new_event(), a_new_event(b"[]"), a_new_event(b"{")]

    with pytest.raises(InvalidEvent) as counted:
        prepare(a_feed(), events[:2], START_AT)
    with pytest.raises(InvalidEvent) as given:
        prepare(a_feed(), events[:2], START_AT, lines=[4, 9])

    assert (counted.value.fields["line"], given.value.fields["line"]) == (2, 9)


@pytest.mark.parametrize(
    ("accompaniment", "refusal"),
    [
        ({"data": b'{"x":"%b"}' % (b"x" * 999_000)}, EventTooLarge),
        ({"key": "a\nb"}, InvalidEvent),
        ({"headers": {"ce_partitionkey": "a\nb"}}, InvalidEvent),
        ({"headers": {"": "x"}}, InvalidEvent),
        ({"headers": {"ce_type": ""}}, InvalidEvent),
        ({"headers": {"ce_type": "a\x00"}}, InvalidEvent),
        ({"partition": 2}, PartitionRefused),
    ],
)
def test_whatever_is_wrong_names_its_line(accompaniment: dict[str, Any], refusal: type[InvalidEvent]) -> None:
    bad = NewEvent.of(**({"data": b"{}", "partition": 0} | accompaniment))
    feed = a_feed(2, partition_strategy="user_defined")

    with pytest.raises(refusal) as told:
        prepare(feed, [a_new_event(partition=1), bad], START_AT, lines=[1, 5])

    assert told.value.fields["line"] == 5


@pytest.mark.parametrize("strategy", ["random", "hash"])
def test_a_key_in_a_header_is_told_by_the_header(strategy: str) -> None:
    feed = a_feed(partition_strategy=strategy, partition_key_fields=["n"] if strategy == "hash" else [])

    with pytest.raises(InvalidEvent) as told:
        prepare(feed, [a_new_event({"n": 1}, headers={"ce_partitionkey": "a\n"})], START_AT)

    assert told.value.fields["reason"].startswith("header 'ce_partitionkey': a key has no control characters")


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("key", ["a\0", "k" * 1025], ids=["control", "too long"])
def test_a_compaction_key_that_is_none_is_told_by_its_place(key: str, deletes: bool) -> None:
    event = a_business_event(metadata={"partition_compaction_key": key})

    with pytest.raises(PartitionRefused, match="line 1: #/metadata/partition_compaction_key: a key has "):
        prepare(a_feed(category="business", cleanup_policy="compact"), [a_new_event(event)], START_AT, deletes=deletes)


class TestKind:
    @pytest.mark.parametrize("kind", ["", "a\x00", "k" * 1025], ids=["empty", "control", "too long"])
    def test_one_that_cannot_be_is_told_by_where_it_stands(self, kind: str) -> None:
        feed, rule = a_feed(category="data"), "must be 1 to 1024 characters without control characters, not "

        with pytest.raises(InvalidEvent) as member:
            prepare(feed, [a_new_event(a_data_event()), a_new_event(a_data_event(data_type=kind))], START_AT)
        with pytest.raises(InvalidEvent) as header:
            prepare(feed, [a_new_event(a_data_event(), headers={"ce_type": kind})], START_AT)

        told = rule + (repr(kind) if len(kind) < 10 else "1025")
        assert member.value.fields == {"line": 2, "reason": f"#/data_type: {told}"}
        assert header.value.fields == {"line": 1, "reason": f"header 'ce_type': {told}"}

    def test_an_event_that_says_none_has_none(self) -> None:
        assert only(prepare(a_feed(), [a_new_event()], START_AT))[1] is None

    def test_a_header_says_it(self) -> None:
        assert only(prepare(a_feed(), [a_new_event(headers={"ce_type": "paid"})], START_AT))[1] == "paid"

    def test_a_data_event_says_it_unless_a_header_does(self) -> None:
        feed, change = a_feed(category="data"), a_data_event(data_type="customer")

        assert only(prepare(feed, [a_new_event(change)], START_AT))[1] == "customer"
        assert only(prepare(feed, [a_new_event(change, headers={"h": "1"})], START_AT))[1] == "customer"
        assert only(prepare(feed, [a_new_event(change, headers={"ce_type": "paid"})], START_AT))[1] == "paid"

    def test_a_member_of_that_name_says_nothing_in_other_categories(self) -> None:
        assert only(prepare(a_feed(), [a_new_event({"data_type": "customer"})], START_AT))[1] is None

    def test_the_event_types_own_name_is_not_written_down(self) -> None:
        assert only(prepare(a_feed(), [a_new_event(headers={"ce_type": NAME})], START_AT))[1] is None


def test_own_headers_are_kept_as_json() -> None:
    headers = {"h": 'a "ü"', "ce_type": "paid"}

    kept = only(prepare(a_feed(), [a_new_event(headers=headers)], START_AT))[2]

    assert json.loads(kept) == headers
    assert only(prepare(a_feed(), [a_new_event(headers={})], START_AT))[2] is None


def test_an_undefined_event_stays_byte_for_byte_but_for_its_line_ends() -> None:
    written = b'{ "metadata" : { "eid" : 1 },\r\n\t"n" : 1.0 }'

    assert only(prepare(a_feed(), [a_new_event(written)], START_AT))[3] == b'{ "metadata" : { "eid" : 1 },\t"n" : 1.0 }'


@pytest.mark.parametrize("category", ["business", "data"])
def test_metadata_is_completed_with_place_and_time(category: str) -> None:
    event = a_business_event(7) if category == "business" else a_data_event(7)
    feed = a_feed(12, category=category, partition_strategy="user_defined")

    data = json.loads(only(prepare(feed, [a_new_event(event, partition=10)], START_AT))[3])

    added = {name: data["metadata"][name] for name in ("event_type", "partition", "received_at")}
    assert added == {"event_type": NAME, "partition": "10", "received_at": "2023-11-14T22:13:20.000Z"}
    assert data["metadata"].items() >= event["metadata"].items()


def test_an_event_that_lacks_the_shape_of_its_category_is_refused() -> None:
    for category in ("business", "data"):
        with pytest.raises(InvalidEvent, match=r"line 1: [^$]*required key \[metadata\] not found"):
            prepare(a_feed(category=category), [a_new_event(an_event())], START_AT)


# The order of work: a phase is done with all events before the next one begins (digest of Nakadi's contract, 3.2).

GOOD = a_new_event(a_business_event(1), partition=0)
MALFORMED = NewEvent.of(b'{"n":1,"n":2}', partition=0)
INVALID = a_new_event(an_event(), partition=0)
LARGE = a_new_event(a_business_event(2, text="x" * 999_000), partition=0)
UNPLACED = a_new_event(a_business_event(3), partition=2)
UNNAMED = a_new_event(a_business_event(4), partition=0, headers={"": "x"})
PHASES: list[dict[str, tuple[NewEvent, type[PenstockError], str]]] = [
    {"parsed": (MALFORMED, MalformedEvent, "stands twice")},
    {
        "valid": (INVALID, InvalidEvent, "required key [metadata] not found"),
        "small": (LARGE, EventTooLarge, ""),
    },
    {"placed": (UNPLACED, PartitionRefused, "has partitions 0 to 1")},
    {"described": (UNNAMED, InvalidEvent, "header ''")},
]


@pytest.mark.parametrize(
    ("events", "line", "refusal"),
    [
        pytest.param([first, GOOD, second, first], line, refusal, id=f"{name} before {other}")
        for at, phase in enumerate(PHASES)
        for number, (name, (bad, *refusal)) in enumerate(phase.items())
        for later, others in enumerate(PHASES[at:], at)
        for count, (other, (worse, *_)) in enumerate(others.items())
        if (at, number) != (later, count)
        for first, second, line in ([(bad, worse, 1)] if at == later else [(worse, bad, 3)])
    ],
)
def test_an_earlier_phase_ends_it_whichever_event_comes_first(
    events: list[NewEvent], line: int, refusal: tuple[type[PenstockError], str]
) -> None:
    feed = a_feed(2, category="business", partition_strategy="user_defined")

    with pytest.raises(refusal[0]) as told:
        prepare(feed, events, START_AT)

    assert type(told.value) is refusal[0]
    assert told.value.fields["line"] == line
    assert refusal[1] in told.value.fields.get("reason", "")


def test_the_size_of_an_event_is_bounded_to_the_byte() -> None:
    large = b'{"x":"%b"}' % (b"x" * 998_992)

    assert prepare(a_feed(), [NewEvent.of(large)], START_AT).events == 1
    with pytest.raises(EventTooLarge) as told:
        prepare(a_feed(), [NewEvent.of(large + b" ")], START_AT)
    assert told.value.fields == {"line": 1, "size": 999_001, "limit": 999_000}


class TestMetadata:
    WRITTEN: ClassVar = {
        "received_at": "2020-01-01T00:00:00.000Z",
        "version": "7.0.0",
        "published_by": "somebody",
        "event_type": "another.name",
    }

    @pytest.mark.parametrize("category", ["business", "data"])
    def test_what_a_hub_has_written_is_replaced(self, category: str) -> None:
        metadata = self.WRITTEN | {"partition": "1"}
        event = (a_business_event if category == "business" else a_data_event)(metadata=metadata)
        feed = a_feed(2, category=category, partition_strategy="user_defined")

        prepared = prepare(feed, [a_new_event(event)], START_AT)

        assert [*prepared.rows] == [1], "its partition is where it goes"
        pairs = json.loads(only(prepared)[3], object_pairs_hook=lambda pairs: pairs)
        names = [name for name, _ in dict(pairs)["metadata"]]
        assert len(names) == len(set(names))
        assert dict(dict(pairs)["metadata"]) == event["metadata"] | {
            "received_at": "2023-11-14T22:13:20.000Z",
            "version": "1.0.0",
            "published_by": "unauthenticated",
            "event_type": NAME,
            "partition": "1",
        }

    @pytest.mark.parametrize("category", ["business", "data"])
    @pytest.mark.parametrize("member", WRITTEN)
    def test_strictly_it_is_refused(self, category: str, member: str) -> None:
        make = a_business_event if category == "business" else a_data_event
        event = make(metadata={member: self.WRITTEN[member]})

        told = f"#/metadata: extraneous key [{member}] is not permitted"
        if member == "event_type":
            told = "#/metadata/event_type: another.name is not a valid enum value"
        with pytest.raises(InvalidEvent) as refused:
            prepare(a_feed(category=category), [a_new_event(event)], START_AT, strict=True)
        assert refused.value.fields["reason"] == told

    @pytest.mark.parametrize("strict", [False, True])
    def test_its_own_name_and_partition_are_taken(self, strict: bool) -> None:
        event = a_business_event(metadata={"event_type": NAME, "partition": "5"})

        data = json.loads(only(prepare(a_feed(category="business"), [a_new_event(event)], START_AT, strict=strict))[3])

        assert (data["metadata"]["event_type"], data["metadata"]["partition"]) == (NAME, "0")

    @pytest.mark.parametrize("strict", [False, True])
    @pytest.mark.parametrize("members", [{"more": 1}, {"partition": 5}, {"partition_compaction_key": "k"}], ids=str)
    def test_what_nobody_may_write_is_refused(self, strict: bool, members: dict[str, Any]) -> None:
        new = a_new_event(a_business_event(metadata=members))

        with pytest.raises(InvalidEvent, match=r"#/metadata"):
            prepare(a_feed(category="business"), [new], START_AT, strict=strict)

    @pytest.mark.parametrize(
        ("own", "handed", "kept"),
        [
            (None, "f", "f"), ("", "f", "f"), ("own", "f", "own"),
            (None, None, None), ("", None, None), ("own", None, "own"), (None, "", None),
        ],
    )  # fmt: skip
    def test_a_flow_id_goes_to_those_that_have_none(
        self, own: str | None, handed: str | None, kept: str | None
    ) -> None:
        event = a_business_event(metadata={} if own is None else {"flow_id": own})

        row = only(prepare(a_feed(category="business"), [a_new_event(event)], START_AT, flow_id=handed))

        assert json.loads(row[3])["metadata"].get("flow_id") == kept

    def test_each_event_of_a_batch_keeps_its_own_flow_id(self) -> None:
        feed = a_feed(category="data")
        events = [a_new_event(a_data_event(metadata={"flow_id": own} if own else {})) for own in ("a", "", "b", "")]

        ((rows),) = prepare(feed, events, START_AT, flow_id="f").rows.values()

        assert [json.loads(row[3])["metadata"]["flow_id"] for row in rows] == ["a", "f", "b", "f"]

    def test_an_undefined_event_gets_none(self) -> None:
        event = {"metadata": {"flow_id": "", "version": 1}}

        assert json.loads(only(prepare(a_feed(), [a_new_event(event)], START_AT, flow_id="f"))[3]) == event


class TestDeletion:
    """Only its size counts, its partition and its key (digest of Nakadi's contract, 3.7)."""

    def feed(self, **definition: Any) -> Feed:
        return a_feed(COUNT, **({"category": "business", "cleanup_policy": "compact"} | definition))

    def deletion(self, key: str = "k", **members: Any) -> NewEvent:
        return a_new_event({"metadata": {"partition_compaction_key": key}} | members)

    def delete(self, feed: Feed, *events: NewEvent, **how: Any) -> Prepared:
        return prepare(feed, events, START_AT, deletes=True, **how)

    @pytest.mark.parametrize("policy", ["compact", "compact_and_delete"])
    @pytest.mark.parametrize("category", ["business", "data"])
    def test_it_is_a_mark_under_its_key_and_nothing_is_added(self, category: str, policy: str) -> None:
        feed = self.feed(category=category, cleanup_policy=policy)
        new = a_new_event(b'{ "metadata":\n{"partition_compaction_key":"k","version":1}}', headers={"h": "1"})

        row = only(self.delete(feed, new, flow_id="f", strict=True))

        assert row == ("k", DELETION, None, b'{ "metadata":{"partition_compaction_key":"k","version":1}}')

    def test_the_schema_says_nothing_of_it(self) -> None:
        schema = {"type": "json_schema", "schema": '{"required": ["n"], "properties": {"n": {"type": "string"}}}'}
        feed = self.feed(compatibility_mode="compatible", schema=schema)

        assert self.delete(feed, self.deletion(n=5, more=1)).events == 1
        with pytest.raises(InvalidEvent):
            prepare(feed, [self.deletion(n=5, more=1)], START_AT)

    def test_its_size_counts(self) -> None:
        with pytest.raises(EventTooLarge) as told:
            self.delete(self.feed(), self.deletion(), self.deletion(text="x" * 999_000))
        assert told.value.fields["line"] == 2

    def test_it_falls_where_the_event_fell(self) -> None:
        feed = self.feed(partition_strategy="hash", partition_key_fields=["order_id"])
        metadata = {"partition_compaction_key": "k"}
        event = a_new_event(a_business_event(7, metadata=metadata))

        deleted = self.delete(feed, self.deletion(order_id=7))

        assert placed(deleted) == placed(prepare(feed, [event], START_AT)) == {hash_partition(("7",), COUNT): ["k"]}
        with pytest.raises(PartitionRefused, match="'order_id' is missing"):
            self.delete(feed, self.deletion())

    def test_it_goes_where_its_producer_says(self) -> None:
        feed = self.feed(partition_strategy="user_defined")
        new = a_new_event({"metadata": {"partition_compaction_key": "k", "partition": "11"}})

        assert placed(self.delete(feed, new)) == {11: ["k"]}
        with pytest.raises(PartitionRefused, match="has partitions 0 to 15"):
            self.delete(feed, self.deletion())

    @pytest.mark.parametrize(
        "event",
        [
            {},
            {"metadata": None},
            {"metadata": {}},
            {"metadata": {"partition_compaction_key": ""}},
            {"metadata": {"partition_compaction_key": 5}},
            {"metadata": {"partition_compaction_key": "a\nb"}},
            {"metadata": {"partition_compaction_key": "x" * 1_025}},
        ],
        ids=lambda event: str(event)[:60],
    )
    def test_it_has_a_key(self, event: dict[str, Any]) -> None:
        with pytest.raises(PartitionRefused) as told:
            self.delete(self.feed(), self.deletion(), a_new_event(event), lines=[3, 8])
        assert told.value.fields["line"] == 8

    @pytest.mark.parametrize("category", ["undefined", "business", "data"])
    def test_what_is_not_compacted_takes_none(self, category: str) -> None:
        with pytest.raises(UndeletableEvents) as told:
            self.delete(a_feed(category=category), self.deletion(text="x" * 999_000))
        assert told.value.fields == {"event_type": NAME}

    def test_it_is_read_before_anything_is_asked_of_its_event_type(self) -> None:
        with pytest.raises(MalformedEvent):
            self.delete(a_feed(), self.deletion(), a_new_event(b"{"))

    def test_large_ones_are_told_before_those_without_a_key(self) -> None:
        with pytest.raises(EventTooLarge):
            self.delete(self.feed(), a_new_event({}), self.deletion(text="x" * 999_000))


@pytest.mark.parametrize("text", ["[]", "x", '{"a":1}', '{"a":null}', "", "null"])
def test_headers_of_an_outbox_row_are_an_object_of_strings_or_refused(text: str) -> None:
    with pytest.raises(InvalidEvent, match="not a JSON object of strings"):
        parse_headers(text)


def test_a_header_that_stands_twice_in_an_outbox_row_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="'a' stands twice"):
        parse_headers('{"a":"1","a":"2"}')


def test_headers_of_an_outbox_row_are_read() -> None:
    assert parse_headers('{ "a" : "1" }') == {"a": "1"}
    assert parse_headers('{"a":"1","b":"ü"}') == {"a": "1", "b": "ü"}
    assert parse_headers("{}") == {}
    assert parse_headers(None) is None


class TestReady:
    feed: ClassVar[Feed] = a_feed(2, partition_strategy="user_defined")
    once: ClassVar[Feed] = a_feed(2, partition_strategy="user_defined", options={"publishing": "exactly-once"})
    handed: ClassVar[Handed] = Handed([a_new_event(partition=1)])

    @pytest.mark.parametrize("stamped", [True, False], ids=["numbered", "plain"])
    def test_what_is_fit_is_prepared(self, stamped: bool) -> None:
        found = publish.ready(self.feed, self.handed, START_AT, exact=stamped)

        assert found == publish.prepare(self.feed, self.handed, START_AT)
        assert publish.refusal(found, exact=stamped) is None

    UNFIT: ClassVar[dict[str, tuple[Handed, type[PenstockError]]]] = {
        "with a key that is none": (Handed([a_new_event(key="a\nb", partition=1)]), InvalidEvent),
        "too large": (Handed([a_new_event(b'{"x":"%b"}' % (b"x" * 999_000), partition=1)]), EventTooLarge),
        "of another partition": (Handed([a_new_event(partition=1)], partition=0), PartitionRefused),
        "a deletion": (Handed([a_new_event(partition=1)], deletes=True), UndeletableEvents),
    }

    @pytest.mark.parametrize(("handed", "kind"), UNFIT.values(), ids=UNFIT)
    def test_what_is_unfit_is_not_looked_at_any_further_unless_it_may_be_in_the_log(
        self, handed: Handed, kind: type[PenstockError]
    ) -> None:
        numbered = publish.ready(self.feed, handed, START_AT, exact=True)
        plain = publish.ready(self.feed, handed, START_AT)

        assert isinstance(numbered, Unfit)
        assert isinstance(plain, Unfit)
        assert (numbered.feed, type(numbered.error), type(plain.error)) == (self.feed, kind, kind)
        assert publish.refusal(numbered, exact=True) is None
        assert publish.refusal(numbered, exact=False) is numbered.error
        assert publish.refusal(plain, exact=False) is plain.error

    @pytest.mark.parametrize("stamped", [True, False], ids=["numbered", "plain"])
    def test_in_a_partition_that_there_is_not_there_is_nothing(self, stamped: bool) -> None:
        found = publish.ready(self.feed, self.handed._replace(partition=2), START_AT, exact=stamped)

        error = publish.refusal(found, exact=stamped)
        assert isinstance(error, PartitionNotFound)
        assert error.fields == {"event_type": NAME, "partition": 2, "partition_count": 2}

    @pytest.mark.parametrize("stamped", [True, False], ids=["numbered", "plain"])
    def test_what_cannot_be_read_is_told_at_once(self, stamped: bool) -> None:
        with pytest.raises(MalformedEvent):
            publish.ready(self.feed, Handed([a_new_event(b"{", partition=1)]), START_AT, exact=stamped)

    def test_where_each_event_is_stored_once_only_numbered_ones_are_taken(self) -> None:
        plain = publish.ready(self.once, self.handed, START_AT)

        assert isinstance(plain, Unfit)
        assert isinstance(publish.refusal(plain, exact=False), PublishingRestricted)
        assert isinstance(publish.ready(self.once, self.handed, START_AT, exact=True), Prepared)

    def test_what_is_wrong_is_told_only_where_that_is_asked_for(self) -> None:
        feed = a_feed(1, schema={"type": "json_schema", "schema": '{"type":"object","required":["a"]}'})

        told = [
            publish.ready(feed, Handed([a_new_event({})]), START_AT, exact=True, tells=tells) for tells in (True, False)
        ]

        reasons = [each.error.fields["reason"] for each in told if isinstance(each, Unfit)]
        assert "required key [a] not found" in reasons[0]
        assert reasons[1] == "is not what the schema allows"


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_first_of_what_was_prepared_can_be_left_out(count: int) -> None:
    feed = a_feed(2, partition_strategy="user_defined")
    prepared = prepare(feed, [a_new_event({"n": n}, partition=1) for n in range(6)], START_AT)

    rest = prepared.without_first(count)

    assert (rest.feed, rest.events, rest.rows) == (feed, 6 - count, {1: prepared.rows[1][count:]})
    assert (prepared.events, len(prepared.rows[1])) == (6, 6)
