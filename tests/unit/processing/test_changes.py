"""Data changes take effect by their ordering key, in whatever order they come."""

from typing import Any

import msgspec
import pytest

from penstock.core.events.decoding import EventDecoder
from penstock.core.events.encoding import encode_event
from penstock.errors import BadParameter, EventUnusable
from penstock.processing.changes import Changes, LastChange
from penstock.schema.models import DataChange
from penstock.testing.factories import a_data_event, a_feed_event, an_event_type
from penstock.wire.log.reader.pages import FeedEvent
from tests.failing import has_code

DEFINITION = an_event_type(
    "order.changed", category="data", ordering_key_fields=["data.version"], ordering_instance_ids=["data.order_id"]
)
CHANGES = Changes(DEFINITION)


def change(order: int, version: Any, data_op: str = "U", **members: Any) -> dict[str, Any]:
    return a_data_event(order, data_op=data_op, version=version, **members)


def test_newest_change_of_each_entity_takes_effect() -> None:
    events = [a_feed_event(change(*each)) for each in ((1, 9), (2, 5), (1, 10), (1, 8), (3, 1))]

    newest = CHANGES.newest(events, {2: 5, 3: 0})

    assert [(each.entity, each.order, each.event) for each in newest] == [(1, 10, events[2]), (3, 1, events[4])]
    assert newest[0].record == {"order_id": 1, "version": 10}


@pytest.mark.parametrize("data_op", ["C", "U", "S"])
def test_change_with_a_known_key_is_a_repeat(data_op: str) -> None:
    assert CHANGES.newest([change(1, 5, data_op)], {1: 5}) == []
    assert CHANGES.newest([change(1, 5, data_op)], {1: LastChange(5, deleted=True)}) == []
    assert CHANGES.newest([change(1, 5, data_op)], {1: 4})[0].deletes is False


def test_late_update_does_not_bring_back_a_deleted_entity() -> None:
    deleted = CHANGES.newest([change(1, 6, "D")], {1: 5})

    assert [each.deletes for each in deleted] == [True]
    assert CHANGES.newest([change(1, 5), change(1, 6)], {1: LastChange(6, deleted=True)}) == []
    assert len(CHANGES.newest([change(1, 7, "C")], {1: LastChange(6, deleted=True)})) == 1


def test_deletion_wins_over_an_update_with_its_key_in_any_order() -> None:
    update, deletion = change(1, 5), change(1, 5, "D")

    for events in ([update, deletion], [deletion, update]):
        assert [each.deletes for each in CHANGES.newest(events, {})] == [True]
    assert [each.deletes for each in CHANGES.newest([deletion], {1: 5})] == [True]
    assert CHANGES.newest([deletion], {1: LastChange(5, deleted=True)}) == []


def test_keys_of_several_fields_are_tuples() -> None:
    changes = Changes("order.changed", entity=["data.shop", "data.order_id"], order_by=["data.epoch", "data.version"])
    event = a_data_event(7, shop="de", epoch=2, version=1)

    assert changes.entities([event, event]) == [("de", 7)]
    assert changes.newest([event], {("de", 7): (1, 9)})[0].order == (2, 1)
    assert changes.newest([event], {("de", 7): LastChange([2, 1])}) == []


@pytest.mark.parametrize(
    ("annotation", "entity"),
    [("order_id", 7), ("data.order_id", 7), ("shop , address.'a.b'", ("de", 1)), ("data_type, order_id", ("order", 7))],
    ids=["in the payload", "in the whole event", "several", "beside the payload"],
)
def test_annotation_names_the_entity_before_all_else(annotation: str, entity: Any) -> None:
    changes = Changes({**DEFINITION, "annotations": {"penstock/entity-key-fields": annotation}})

    assert changes.entities([a_data_event(7, shop="de", address={"a.b": 1})]) == [entity]


def test_own_fields_come_before_those_of_the_definition() -> None:
    changes = Changes(DEFINITION, entity=["data.shop"], order_by=["data.order_id"])

    assert [(each.entity, each.order) for each in changes.newest([a_data_event(7, shop="de")], {})] == [("de", 7)]


class Order(msgspec.Struct):
    """A type of the consumer's own."""

    order_id: int


def test_events_read_into_a_type_are_read_as_json() -> None:
    raw = msgspec.Raw(encode_event(change(7, 5)))
    fit = FeedEvent[DataChange[Order]](0, raw, None, None, 0, EventDecoder(DataChange[Order]), None, 1)
    unfit = FeedEvent[int](0, raw, None, None, 0, EventDecoder(int), None, 2)

    [found] = CHANGES.newest([fit, unfit], {})

    assert (found.entity, found.order, found.record["version"]) == (7, 5, 5)
    assert found.event.data.data == Order(7)


def test_fields_can_be_functions() -> None:
    changes = Changes(
        "order.changed",
        entity=lambda event: event["data"]["ref"].lower(),
        order_by=lambda event: int(event["data"]["tag"][1:]),
    )
    events = [a_data_event(ref="A", tag="v10"), a_data_event(ref="a", tag="v9")]

    assert [(each.entity, each.order) for each in changes.newest(events, {})] == [("a", 10)]


def test_entities_of_a_batch_are_named_once_each() -> None:
    assert CHANGES.entities([change(2, 1), change(1, 1), change(2, 2)]) == [2, 1]


def test_event_type_without_changes_is_refused_by_name() -> None:
    for category in ("business", "undefined"):
        definition = {**DEFINITION, "category": category}
        with pytest.raises(
            EventUnusable,
            check=has_code("wrong-category"),
            match=f"category of 'order.changed' is {category}, not data",
        ):
            Changes(definition)


@pytest.mark.parametrize("member", ["ordering_key_fields", "ordering_instance_ids"])
def test_missing_fields_are_asked_for(member: str) -> None:
    definition = {name: value for name, value in DEFINITION.items() if name != member}

    with pytest.raises(BadParameter, match=f"is missing; allowed: fields, .* since the definition has no {member}"):
        Changes(definition)


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ({"data": {}}, "data_op is missing; it must be C, U, D or S"),
        (change(1, 1) | {"data_op": "X"}, 'data_op must be C, U, D or S, not "X"'),
        (change(1, 1) | {"data_op": ["D"]}, "data_op must be"),
        (change(1, 1) | {"data": None}, "data is missing"),
        (change(1, None), "data.version is missing"),
        (change(1, True), "data.version must be a number or a text, not true"),
        (change(1, 1) | {"data": [7]}, "data must be"),
        (change(1, "5"), "cannot be compared"),
        (change(1, 1, order_id=None), "data.order_id is missing"),
        (change(1, 1, order_id=1.0), "data.order_id must be a whole number or a text"),
        ('"text"', "data_op is missing"),
    ],
    ids=[
        "no change", "operation", "operation list", "no record", "no key", "key", "list", "other key", "no entity",
        "entity", "text",
    ],
)  # fmt: skip
def test_event_without_an_order_is_named(event: Any, told: str) -> None:
    events = [change(1, 5), a_feed_event(event, partition=3)]

    with pytest.raises(EventUnusable, check=has_code("order-unknown")) as raised:
        CHANGES.newest(events, {})

    assert raised.value.detail.startswith("event 1 of the batch, of 'order.changed', partition 3")
    assert told in raised.value.detail


def test_event_that_cannot_be_compared_with_the_known_key_is_named() -> None:
    with pytest.raises(
        EventUnusable,
        check=has_code("order-unknown"),
        match=r"event 0 .* its ordering key \[5\] cannot be compared with \['5'\]",
    ):
        CHANGES.newest([change(1, 5)], {1: "5"})
