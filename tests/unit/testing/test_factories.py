from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from penstock.client.registry import make_definition
from penstock.core.events.event import check_events
from penstock.core.registry.definition import Category
from penstock.core.registry.event_type import EventType
from penstock.errors import EventUnusable
from penstock.testing.factories import (
    a_business_event,
    a_data_event,
    a_feed_event,
    a_new_event,
    an_event,
    an_event_type,
)
from tests.failing import has_code

MAKERS: dict[Category, Callable[..., dict[str, Any]]] = {
    "undefined": an_event,
    "business": a_business_event,
    "data": a_data_event,
}


@pytest.mark.parametrize("category", MAKERS)
def test_made_events_are_valid_equal_for_equal_numbers_only_and_independent(category: Category) -> None:
    make = MAKERS[category]
    changed = make()
    changed.setdefault("metadata", {})["eid"] = "another"

    [event] = check_events([msgspec.json.encode(make())])
    assert EventType.parse(an_event_type(category=category)).validator.find_first_invalid([event]) is None
    assert make(7) == make(7)
    assert len({msgspec.json.encode(make(number)) for number in range(100)}) == 100
    assert make() != changed
    assert make(more=1) == make(more=1) != make()


def test_metadata_can_be_added_and_replaced() -> None:
    for make in (a_business_event, a_data_event):
        metadata = make(7, metadata={"flow_id": "f", "eid": "another"})["metadata"]

        assert (metadata["flow_id"], metadata["eid"]) == ("f", "another")
        assert metadata["occurred_at"] == make(7)["metadata"]["occurred_at"]


def test_made_event_type_is_valid_for_a_hub_and_a_client() -> None:
    given = an_event_type("shop.opened", category="data", partition_count=3)

    assert EventType.parse(given).partition_count == 3
    assert make_definition(given.pop("name"), given)["name"] == "shop.opened"


def test_new_event_has_key_headers_and_partition_and_keeps_text_and_bytes() -> None:
    new = a_new_event(an_event(7), key="k", headers={"h": "1"}, partition=2)

    assert (bytes(new.data), new.key, new.headers, new.partition) == (b'{"order_id":7}', "k", {"h": "1"}, 2)
    assert bytes(a_new_event().data) == msgspec.json.encode(an_event())
    assert a_new_event().headers is None
    assert bytes(a_new_event('{ "n": 1.0 }').data) == bytes(a_new_event(b'{ "n": 1.0 }').data) == b'{ "n": 1.0 }'


class Order(msgspec.Struct):
    order_id: int


def test_feed_event_is_decoded_like_one_of_a_page() -> None:
    read = a_feed_event(an_event(7), partition=2, headers={"ce_type": "x"})

    assert (read.partition, read.raw, read.data) == (2, b'{"order_id":7}', {"order_id": 7})
    assert (read.headers, a_feed_event().headers) == ({"ce_type": "x"}, {})
    assert a_feed_event(Order(7), type=Order).data == Order(7)
    with pytest.raises(EventUnusable, check=has_code("event-unfit")):
        a_feed_event({"order_id": "seven"}, type=Order).data  # noqa: B018 - it is decoded now
