"""Wrong arguments of clients are refused at once, before any request."""

import math
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from penstock.client import AsyncClient, AsyncFeed, Client, CursorTable, Feed, RetryPolicy
from penstock.errors import BadParameter

HUB = "http://127.0.0.1:9"
"""No server listens there."""
CLIENT = Client(HUB, retry_timeout=0)
NO_TEXTS: list[Any] = [None, 5, b"x", ["x"]]
NO_NUMBERS: list[Any] = [None, "1", math.nan, True]
NO_FLAGS: list[Any] = [None, 0, "yes"]

WRONG: dict[str, tuple[Callable[[Any], object], list[Any]]] = {
    "retry_timeout": (lambda value: Client(HUB, retry_timeout=value), [-1, *NO_NUMBERS]),
    "retry_timeout of an async one": (lambda value: AsyncClient(HUB, retry_timeout=value), [-1, *NO_NUMBERS]),
    "retry_timeout of a feed": (lambda value: Feed(HUB, retry_timeout=value), [-1, *NO_NUMBERS]),
    "merged": (lambda value: Feed(HUB, merged=value), NO_FLAGS),
    "merged of an async feed": (lambda value: AsyncFeed(HUB, merged=value), NO_FLAGS),
    "version": (lambda value: Feed(HUB, version=value), [3, "2", [2]]),
    "partition_count": (lambda value: Feed(HUB, partition_count=value), [0, "1", 1.5, True, [1]]),
    "name": (CLIENT.event_type, NO_TEXTS),
    "name of a feed": (CLIENT.feed, NO_TEXTS),
    "name of a group": (CLIENT.consumer_group, NO_TEXTS),
    "name of a subscription": (CLIENT.subscriptions.show, NO_TEXTS),
    "batch_events": (lambda value: CLIENT.publish("a", [{}], batch_events=value), [0, 1.5, *NO_NUMBERS]),
    "batch_bytes": (lambda value: CLIENT.publish("a", [{}], batch_bytes=value), [0, 1.5, *NO_NUMBERS]),
    "max_attempts": (lambda value: RetryPolicy(max_attempts=value), [0, "1", 1.5, True]),
    "max_delay_seconds": (lambda value: RetryPolicy(max_delay_seconds=value), [0, *NO_NUMBERS]),
    "table": (lambda value: CursorTable(sqlite3.connect(":memory:"), table=value), ["", "a b", *NO_TEXTS]),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, (_, values) in WRONG.items() for value in values])
def test_wrong_argument_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(BadParameter, match="allowed: ") as told:
        WRONG[name][0](value)
    assert told.value.parameter == name.partition(" of ")[0]
