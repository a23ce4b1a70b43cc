"""Events fall into partitions by the strategy of their event type."""

from typing import Any

import pytest

from penstock.core.events.event import NewEvent
from penstock.core.events.partitioning import hash_partition
from penstock.core.registry.event_type import StoredFeed
from penstock.errors import InvalidEvent, PartitionNotFound
from penstock.hub.log import publish
from penstock.hub.log.publish import NewEvents
from penstock.testing.clock import START_AT
from penstock.testing.factories import a_business_event, a_data_event, a_new_event, an_event
from tests.failing import has_code
from tests.unit.hub.feeds import a_feed

COUNT = 16


def hashed(*fields: str, **definition: Any) -> StoredFeed:
    return a_feed(COUNT, partition_strategy="hash", partition_key_fields=list(fields), **definition)


def at(*values: str) -> int:
    return hash_partition(values, COUNT)


def place(feed: StoredFeed, *events: NewEvent, **how: Any) -> dict[int, list[str | None]]:
    """Return the keys of the events, by partition."""
    prepared = publish.prepare(feed, NewEvents(events, **how), START_AT)
    return {partition: [row[0] for row in rows] for partition, rows in prepared.rows.items()}


def asking(partition: Any) -> dict[str, Any]:
    """Return a business event whose metadata asks for a partition."""
    return a_business_event(metadata={"partition": partition})


RANDOM, BY_ID = a_feed(COUNT), hashed("order_id")
ASKED = a_feed(12, partition_strategy="user_defined", category="business")
COMPACTED = a_feed(COUNT, category="business", cleanup_policy="compact")
COMPACTED_EVENT = a_new_event(a_business_event(metadata={"partition_compaction_key": "c"}))
HEADER = "ce_partitionkey"
RIGHT, WRONG = at("7"), (at("7") + 1) % COUNT
NOT_0 = next(n for n in range(99) if at(str(n)) != 0)

PLACED: dict[str, tuple[StoredFeed, NewEvent, int | None, int, str | None]] = {
    "hash, a field": (BY_ID, a_new_event(an_event(7)), None, at("7"), "7"),
    "hash, several fields": (
        hashed("shop", "'a.b'.c"), a_new_event({"shop": "x", "a.b": {"c": 2}}), None, at("x", "2"), "x,2"),
    "hash, a field of a record": (
        hashed("order_id", category="data"), a_new_event(a_data_event(7)), None, at("7"), "7"),
    "hash, a key": (BY_ID, a_new_event(an_event(7), key="k"), None, at("k"), "k"),
    "hash, a key in a header": (BY_ID, a_new_event({}, headers={HEADER: "k"}), None, at("k"), "k"),
    "hash, a key and a header": (BY_ID, a_new_event({}, key="k", headers={HEADER: "other"}), None, at("k"), "k"),
    "hash, a key with a comma": (hashed("shop", "n"), a_new_event({}, key="x,2"), None, at("x,2"), "x,2"),
    "hash, an empty key": (BY_ID, a_new_event({}, key=""), None, 0, ""),
    "hash, by field to its own": (BY_ID, a_new_event(an_event(7)), RIGHT, RIGHT, "7"),
    "hash, by key to its own": (BY_ID, a_new_event({}, key="7"), RIGHT, RIGHT, "7"),
    "user_defined, in the metadata": (ASKED, a_new_event(asking("3")), None, 3, None),
    "user_defined, beside the event": (ASKED, a_new_event(asking("3"), partition=11), None, 11, None),
    "user_defined, sent to one": (ASKED, a_new_event(a_business_event()), 3, 3, None),
    "user_defined, sent to the same": (ASKED, a_new_event(a_business_event(), partition=3), 3, 3, None),
    "user_defined, sent to that of the metadata": (ASKED, a_new_event(asking("3")), 3, 3, None),
    "random, sent to one": (RANDOM, a_new_event(key="k", partition=COUNT + 1), 3, 3, "k"),
    "random, compacted": (COMPACTED, COMPACTED_EVENT, 3, 3, "c"),
}  # fmt: skip


@pytest.mark.parametrize(("feed", "event", "only", "partition", "key"), PLACED.values(), ids=PLACED)
def test_event_falls_into_its_partition_with_its_key(
    feed: StoredFeed, event: NewEvent, only: int | None, partition: int, key: str | None
) -> None:
    assert place(feed, event, event, partition=only) == {partition: [key, key]}


def test_key_with_a_comma_is_not_the_key_of_two_fields() -> None:
    assert at("x,2") != at("x", "2")


def test_random_strategy_uses_all_partitions_and_keeps_the_key() -> None:
    found = place(RANDOM, *[a_new_event(key="k", partition=COUNT + 1)] * 400)

    assert found.keys() == set(range(COUNT))
    assert {key for keys in found.values() for key in keys} == {"k"}


RULE = "a key has no control characters"
NO_PARTITION = "'order.placed' is user_defined and has partitions 0 to 11"
REFUSED: dict[str, tuple[StoredFeed, NewEvent, dict[str, Any], str]] = {
    "field missing": (hashed("a.b"), a_new_event({"a": 7}), {}, "partition key field 'a.b' is missing; give the event"),
    **{f"field {field} missing": (
        hashed("n", field), a_new_event({"n": 1, "a": {"b": {"c": 1}}}), {},
        f"partition key field {field!r} is missing; give the event",
    ) for field in ("'a.b'.c", r"a\.b.c", "a.'b.c'")},
    "field of a record missing": (
        hashed("shop", category="data"), a_new_event(a_data_event(7)), {},
        "partition key field 'shop' is missing in its data"),
    "key too long": (hashed("order.id"), a_new_event({"order": {"id": "y" * 1025}}), {},
        "#/order/id: a key has at most 1024 characters, this one has 1025"),
    "key with a line end": (hashed("shop", "n"), a_new_event({"shop": "x\n", "n": 1}), {},
        "#/shop: a key has no control characters and no lone surrogates, not 'x\\n'"),
    "fields too long together": (hashed("a", "b"), a_new_event({"a": "x" * 600, "b": "y" * 600}), {},
        "#/a, #/b: a key has at most 1024 characters, this one has 1201"),
    "key of a record": (hashed("customer.id", category="data"),
        a_new_event(a_data_event(7) | {"data": {"customer": {"id": "a\0"}}}), {}, f"#/data/customer/id: {RULE}"),
    "field belongs elsewhere": (BY_ID, a_new_event(an_event(7)), {"partition": WRONG},
        f"its key '7' belongs to partition {RIGHT}, not to {WRONG}: send it there, or to no partition in particular"),
    "key belongs elsewhere": (BY_ID, a_new_event({}, key="7"), {"partition": WRONG}, f"not to {WRONG}"),
    "key does not belong to 0": (BY_ID, a_new_event(an_event(NOT_0)), {"partition": 0}, "not to 0"),
    **{f"partition {asked[:9]!r}": (ASKED, a_new_event(asking(asked)), {}, NO_PARTITION)
       for asked in ("12", "-1", "٣", "3.0", "", "03", "1" * 5_000)},
    "asks for another beside it": (ASKED, a_new_event(a_business_event(), partition=4), {"partition": 3},
        "it asks for partition 4, and was sent to 3"),
    "asks for another in its metadata": (ASKED, a_new_event(asking("4")), {"partition": 3},
        "it asks for partition 4, and was sent to 3"),
    "asks for another than 0": (ASKED, a_new_event(a_business_event(), partition=1), {"partition": 0},
        "it asks for partition 1, and was sent to 0"),
    "asks beyond the last beside it": (ASKED, a_new_event(a_business_event(), partition=12), {"partition": 3},
        NO_PARTITION),
    "asks for nonsense": (ASKED, a_new_event(asking("x")), {"partition": 3}, NO_PARTITION),
}  # fmt: skip


@pytest.mark.parametrize(("feed", "event", "how", "reason"), REFUSED.values(), ids=REFUSED)
def test_event_without_its_partition_is_refused_by_line(
    feed: StoredFeed, event: NewEvent, how: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidEvent, check=has_code("partition-refused")) as refused:
        place(feed, event, lines=[8], **how)

    assert refused.value.line == 8
    assert reason in refused.value.reason


@pytest.mark.parametrize("strict", [False, True])
def test_refusal_advises_a_key_where_one_can_be_given(strict: bool) -> None:
    with pytest.raises(InvalidEvent, check=has_code("partition-refused")) as refused:
        place(BY_ID, a_new_event({}), strict=strict)

    assert ("or a key beside it" in refused.value.reason) == (not strict)


def test_refusal_quotes_the_partition_that_was_asked_for() -> None:
    with pytest.raises(InvalidEvent, check=has_code("partition-refused"), match="1" * 70):
        place(ASKED, a_new_event(asking("1" * 5_000)))


@pytest.mark.parametrize("strategy", ["random", "hash", "user_defined"])
def test_unknown_partition_is_refused_before_the_events_are_parsed(strategy: str) -> None:
    feed = a_feed(2, partition_strategy=strategy, partition_key_fields=["n"] if strategy == "hash" else [])

    with pytest.raises(PartitionNotFound) as refused:
        place(feed, a_new_event(b"{"), partition=2)

    assert refused.value.fields == {"event_type": "order.placed", "partition": 2, "partition_count": 2}
