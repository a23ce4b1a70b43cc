"""Makes valid event types and events, so that a test states only the values that it depends on.

The results are the same in every run: an event's *number* determines its content, id and time.

    client.create_event_type(**an_event_type("order.placed", category="business"))
    client.publish("order.placed", [a_business_event(number) for number in range(3)])

Every call returns a new object, which the test may change.
"""

from collections.abc import Mapping
from types import UnionType
from typing import Any
from uuid import UUID

import msgspec

from penstock.client import FeedEvent
from penstock.client.registry import fill_definition
from penstock.core.events.decoding import EventDecoder
from penstock.core.events.encoding import encode_event
from penstock.core.events.event import NewEvent
from penstock.core.log.details import EventDetails
from penstock.core.times import format_time
from penstock.processing.parameters import check_count, check_kind
from penstock.testing.clock import START_AT
from penstock.wire.log.reader.pages import Data, PageDetails

__all__ = ["a_business_event", "a_data_event", "a_feed_event", "a_new_event", "an_event", "an_event_type"]


def an_event_type(name: str = "order.placed", **definition: Any) -> dict[str, Any]:
    """Return the definition of an event type for `Hub.registry.create`; for `Client`, pass its members.

    Its category is undefined, and it has one partition; *definition* are any members of Nakadi's shape. Other required
    members are filled in.

    >>> an_event_type(partition_count=4)["partition_count"]
    4
    """
    return fill_definition({"name": name, "partition_count": 1} | definition)


def an_event(number: int = 1, **members: Any) -> dict[str, Any]:
    """Return an event of an event type whose category is undefined.

    Raises:
        BadParameter: *number* is no whole number from 0, as in all that makes events here.

    >>> an_event(7, customer="Ada")
    {'order_id': 7, 'customer': 'Ada'}
    """
    check_count("number", number, least=0)
    return {"order_id": number} | members


def a_business_event(number: int = 1, *, metadata: Mapping[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    """Return a business event; *metadata* are members that its metadata has besides, or in place of, id and time.

    >>> a_business_event(7)["metadata"]
    {'eid': '00000000-0000-0000-0000-000000000007', 'occurred_at': '2023-11-14T22:13:27.000Z'}
    """
    return an_event(number, **members) | {"metadata": _metadata(number, metadata)}


def a_data_event(
    number: int = 1,
    *,
    data_op: str = "C",
    data_type: str = "order",
    metadata: Mapping[str, Any] | None = None,
    **members: Any,
) -> dict[str, Any]:
    """Return a change of a record: by *data_op* created (C), updated (U), deleted (D), or shown as it is (S).

    *members* are those of the record, *metadata* as for `a_business_event`.

    >>> change = a_data_event(7, data_op="U", state="paid")
    >>> change["data_type"], change["data_op"], change["data"]
    ('order', 'U', {'order_id': 7, 'state': 'paid'})
    """
    record = an_event(number, **members)
    return {"data_type": data_type, "data_op": data_op, "data": record, "metadata": _metadata(number, metadata)}


def a_new_event(
    event: Any = None,
    *,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
    partition: int | None = None,
) -> NewEvent:
    """Return *event*, by default `an_event()`, as a `NewEvent` for `Hub.log.publish`.

    >>> bytes(a_new_event({"n": 1.5}, key="7").data)
    b'{"n":1.5}'
    """
    data = encode_event(an_event() if event is None else event)
    if headers is not None:
        check_kind("headers", headers, Mapping, "texts by name, or None")
    return NewEvent.of(data, key=key, headers=dict(headers) if headers else None, partition=partition)


def a_feed_event(
    event: Any = None,
    *,
    partition: int = 0,
    headers: Mapping[str, str] | None = None,
    type: type[Data] | UnionType | None = None,
    offset: int = 0,
    key: str | None = None,
    kind: str = "order.placed",
    received_at: int = START_AT,
) -> FeedEvent[Data]:
    """Return *event*, by default `an_event()`, as a page of a feed holds it, for tests of consumers.

    With *type*, its data is decoded to that type. *received_at* are microseconds since 1970, UTC.

    >>> a_feed_event({"n": 1.5}, partition=3).data
    {'n': 1.5}
    """
    raw = msgspec.Raw(encode_event(an_event() if event is None else event))
    if headers is not None:
        check_kind("headers", headers, Mapping, "texts by name, or None")
    found = EventDetails(kind, [1], [received_at], offset, keys=[key])
    details = PageDetails("", msgspec.Raw(msgspec.json.encode(found)))
    if type is None:
        return FeedEvent(partition, raw, headers, details)
    return FeedEvent(partition, raw, headers, details, 0, EventDecoder(type), "_first", 1)


def _metadata(number: int, members: Mapping[str, Any] | None) -> dict[str, Any]:
    if members is not None:
        check_kind("metadata", members, Mapping, "members by name, or None")
    occurred_at = format_time(START_AT + number * 1_000_000)
    return {"eid": str(UUID(int=number)), "occurred_at": occurred_at} | dict(members or {})
