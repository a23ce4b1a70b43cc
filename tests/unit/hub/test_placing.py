"""Events fall into partitions by the strategy of their event type."""

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from penstock.core.event import NewEvent
from penstock.core.event_type import Feed
from penstock.core.partitioning import hash_partition
from penstock.errors import PartitionNotFound, PartitionRefused
from penstock.hub import publish
from penstock.hub.publish import Handed, Prepared
from penstock.testing.clock import START_AT
from penstock.testing.factories import a_business_event, a_data_event, a_new_event, an_event
from tests.unit.hub.feeds import a_feed

COUNT = 16


def prepare(feed: Feed, events: Sequence[NewEvent], at: int, **how: Any) -> Prepared:
    return publish.prepare(feed, Handed(events, **how), at)


def placed(prepared: Prepared) -> dict[int, list[str | None]]:
    """Return the keys of what was prepared, by partition number."""
    return {partition: [row[0] for row in rows] for partition, rows in prepared.rows.items()}


def hashed(fields: list[str], **definition: Any) -> Any:
    return a_feed(COUNT, partition_strategy="hash", partition_key_fields=fields, **definition)


class TestHash:
    def test_a_field_decides_and_becomes_the_key(self) -> None:
        prepared = prepare(hashed(["order_id"]), [a_new_event(an_event(n)) for n in (1, 7, 1)], START_AT)

        assert {key: p for p, keys in placed(prepared).items() for key in keys} == {
            "1": hash_partition(("1",), COUNT),
            "7": hash_partition(("7",), COUNT),
        }

    def test_several_fields_decide_together_and_are_joined(self) -> None:
        prepared = prepare(hashed(["shop", "'a.b'.c"]), [a_new_event({"shop": "x", "a.b": {"c": 2}})], START_AT)

        assert placed(prepared) == {hash_partition(("x", "2"), COUNT): ["x,2"]}

    def test_a_key_takes_the_place_of_the_fields(self) -> None:
        feed, key = hashed(["order_id"]), {hash_partition(("k",), COUNT): ["k"]}

        assert placed(prepare(feed, [a_new_event({}, key="k")], START_AT)) == key
        assert placed(prepare(feed, [a_new_event({}, headers={"ce_partitionkey": "k"})], START_AT)) == key
        both = a_new_event({}, key="k", headers={"ce_partitionkey": "another"})
        assert placed(prepare(feed, [both], START_AT)) == key

    def test_a_key_with_commas_is_one_text(self) -> None:
        feed, key = hashed(["shop", "order_id"]), "x,2"
        alone = {hash_partition((key,), COUNT): [key]}

        assert placed(prepare(feed, [a_new_event({}, key=key)], START_AT)) == alone
        assert placed(prepare(feed, [a_new_event({}, headers={"ce_partitionkey": key})], START_AT)) == alone
        by_fields = placed(prepare(feed, [a_new_event({"shop": "x", "order_id": 2})], START_AT))
        assert by_fields == {hash_partition(("x", "2"), COUNT): [key]} != alone

    def test_an_empty_key_is_a_key(self) -> None:
        assert placed(prepare(hashed(["order_id"]), [a_new_event({}, key="")], START_AT)) == {0: [""]}

    def test_fields_of_a_data_event_are_those_of_the_record(self) -> None:
        feed = hashed(["order_id"], category="data")

        assert placed(prepare(feed, [a_new_event(a_data_event(7))], START_AT)) == {hash_partition(("7",), COUNT): ["7"]}

    def test_a_field_that_is_missing_is_named(self) -> None:
        with pytest.raises(PartitionRefused, match=r"line 2: partition key field 'a\.b' is missing"):
            prepare(hashed(["a.b"]), [a_new_event({"a": {"b": 1}}), a_new_event({"a": 7})], START_AT)

    @pytest.mark.parametrize("field", ["'a.b'.c", r"a\.b.c", "a.'b.c'"])
    def test_a_field_that_is_missing_is_named_as_the_definition_does(self, field: str) -> None:
        with pytest.raises(PartitionRefused) as told:
            prepare(hashed(["n", field]), [a_new_event({"n": 1, "a": {"b": {"c": 1}}})], START_AT)

        assert told.value.fields["reason"].startswith(f"partition key field {field!r} is missing; give the event")

    def test_a_field_of_a_change_is_missing_in_its_data(self) -> None:
        with pytest.raises(PartitionRefused, match="partition key field 'shop' is missing in its data"):
            prepare(hashed(["shop"], category="data"), [a_new_event(a_data_event(7))], START_AT)

    @pytest.mark.parametrize("strict", [False, True])
    def test_a_key_is_advised_where_one_can_be_given(self, strict: bool) -> None:
        with pytest.raises(PartitionRefused) as told:
            prepare(hashed(["order_id"]), [a_new_event({})], START_AT, strict=strict)

        assert ("or a key beside it" in told.value.fields["reason"]) == (not strict)

    @pytest.mark.parametrize(
        ("shop", "order_id", "reason"),
        [
            ("x", "y" * 1025, "#/order/id: a key has at most 1024 characters, this one has 1025"),
            ("x\n", "y", "#/shop: a key has no control characters and no lone surrogates, not 'x\\n'"),
            ("x" * 600, "y" * 600, "#/shop, #/order/id: a key has at most 1024 characters, this one has 1201"),
        ],
        ids=["too long", "control", "too long together"],
    )
    def test_fields_that_make_no_key_are_named(self, shop: str, order_id: str, reason: str) -> None:
        with pytest.raises(PartitionRefused) as told:
            prepare(hashed(["shop", "order.id"]), [a_new_event({"shop": shop, "order": {"id": order_id}})], START_AT)

        assert told.value.fields["reason"] == reason

    def test_a_field_of_a_change_that_makes_no_key_is_named_by_its_place(self) -> None:
        change = a_data_event(7) | {"data": {"customer": {"id": "a\0"}}}

        with pytest.raises(PartitionRefused, match="line 1: #/data/customer/id: a key has no control characters"):
            prepare(hashed(["customer.id"], category="data"), [a_new_event(change)], START_AT)


class TestUserDefined:
    feed = a_feed(12, partition_strategy="user_defined", category="business")

    def test_the_producer_says_so_in_the_metadata(self) -> None:
        event = a_new_event(a_business_event(metadata={"partition": "3"}))

        assert placed(prepare(self.feed, [event], START_AT)).keys() == {3}

    def test_what_stands_beside_the_event_wins(self) -> None:
        event = a_new_event(a_business_event(metadata={"partition": "3"}), partition=11)

        assert placed(prepare(self.feed, [event], START_AT)).keys() == {11}

    @pytest.mark.parametrize(
        "asked", ["12", "-1", "٣", "3.0", "", "03", "1" * 5_000], ids=lambda asked: repr(asked[:9])
    )
    def test_what_is_no_partition_is_refused_by_what_was_said(self, asked: Any) -> None:
        event = a_new_event(a_business_event(metadata={"partition": asked}))

        with pytest.raises(PartitionRefused, match="has partitions 0 to 11") as told:
            prepare(self.feed, [event], START_AT)
        assert asked[:70] in told.value.detail


class TestRandom:
    def test_a_key_is_kept_and_does_not_choose(self) -> None:
        events = [a_new_event(key="k", partition=COUNT + 1) for _ in range(1000)]

        found = placed(prepare(a_feed(COUNT), events, START_AT))

        assert found.keys() == set(range(COUNT))
        assert {key for keys in found.values() for key in keys} == {"k"}


class TestOnly:
    """All events were sent to one partition."""

    hashed: ClassVar[Feed] = hashed(["order_id"])
    asked: ClassVar[Feed] = a_feed(12, partition_strategy="user_defined", category="business")

    def test_under_random_all_go_there(self) -> None:
        events = [a_new_event(key="k", partition=COUNT + 1) for _ in range(100)]

        assert placed(prepare(a_feed(COUNT), events, START_AT, partition=3)) == {3: ["k"] * 100}
        compacted = a_feed(COUNT, category="business", cleanup_policy="compact")
        event = a_new_event(a_business_event(metadata={"partition_compaction_key": "c"}))
        assert placed(prepare(compacted, [event] * 100, START_AT, partition=3)) == {3: ["c"] * 100}

    def test_under_hash_those_go_there_that_belong_there(self) -> None:
        right = hash_partition(("7",), COUNT)

        assert placed(prepare(self.hashed, [a_new_event(an_event(7))], START_AT, partition=right)) == {right: ["7"]}
        assert placed(prepare(self.hashed, [a_new_event({}, key="7")], START_AT, partition=right)) == {right: ["7"]}

    @pytest.mark.parametrize("event", [a_new_event(an_event(7)), a_new_event({}, key="7")], ids=["fields", "key"])
    def test_under_hash_one_that_belongs_elsewhere_is_told_where(self, event: NewEvent) -> None:
        right = hash_partition(("7",), COUNT)
        wrong = (right + 1) % COUNT

        with pytest.raises(PartitionRefused) as told:
            prepare(self.hashed, [event], START_AT, partition=wrong)

        reason = (
            f"its key '7' belongs to partition {right}, not to {wrong}: send it there, or to no partition in particular"
        )
        assert told.value.fields == {"line": 1, "reason": reason}

    def test_partition_0_is_one_like_any_other(self) -> None:
        elsewhere = next(n for n in range(99) if hash_partition((str(n),), COUNT) != 0)

        with pytest.raises(PartitionRefused, match="not to 0"):
            prepare(self.hashed, [a_new_event(an_event(elsewhere))], START_AT, partition=0)
        with pytest.raises(PartitionRefused, match="it asks for partition 1, and was sent to 0"):
            prepare(self.asked, [a_new_event(a_business_event(), partition=1)], START_AT, partition=0)

    @pytest.mark.parametrize(
        "event",
        [
            a_new_event(a_business_event()),
            a_new_event(a_business_event(), partition=3),
            a_new_event(a_business_event(metadata={"partition": "3"})),
        ],
        ids=["asks for none", "beside it", "in its metadata"],
    )
    def test_under_user_defined_those_go_there_that_ask_for_nothing_else(self, event: NewEvent) -> None:
        assert placed(prepare(self.asked, [event], START_AT, partition=3)).keys() == {3}

    @pytest.mark.parametrize(
        ("event", "reason"),
        [
            (a_new_event(a_business_event(), partition=4), "it asks for partition 4, and was sent to 3"),
            (a_new_event(a_business_event(metadata={"partition": "4"})), "it asks for partition 4, and was sent to 3"),
            (
                a_new_event(a_business_event(), partition=12),
                "'order.placed' is user_defined and has partitions 0 to 11",
            ),
            (
                a_new_event(a_business_event(metadata={"partition": "x"}), partition=None),
                "'order.placed' is user_defined and has partitions 0 to 11",
            ),
        ],
        ids=["another, beside it", "another, in its metadata", "one that there is not", "nonsense"],
    )
    def test_under_user_defined_one_that_asks_for_another_is_refused(self, event: NewEvent, reason: str) -> None:
        with pytest.raises(PartitionRefused) as told:
            prepare(self.asked, [a_new_event(a_business_event()), event], START_AT, partition=3)

        assert told.value.fields["line"] == 2
        assert told.value.fields["reason"].endswith(reason)

    @pytest.mark.parametrize("strategy", ["random", "hash", "user_defined"])
    def test_where_there_is_no_such_partition_nothing_is_looked_at(self, strategy: str) -> None:
        feed = a_feed(2, partition_strategy=strategy, partition_key_fields=["n"] if strategy == "hash" else [])

        with pytest.raises(PartitionNotFound) as told:
            prepare(feed, [a_new_event(b"{")], START_AT, partition=2)

        assert told.value.fields == {"event_type": "order.placed", "partition": 2, "partition_count": 2}
