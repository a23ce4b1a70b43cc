"""Arguments of a wrong type or value are refused before a request is sent, by an error that names the argument."""

import math
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from penstock.client import AsyncClient, AsyncFeed, Client, CursorTable, Feed, IdempotentProducer, RetryPolicy, share
from penstock.errors import BadParameter

HUB = "http://localhost:1"
CLIENT: Any = Client(HUB, retry_timeout=0)
FEED: Any = CLIENT.feed("x", partition_count=1)
CURSORS = {0: "_first"}
NO_TEXTS: list[Any] = [None, 5, b"x", ["x"]]
NO_NUMBERS: list[Any] = [None, "1", math.nan, True]
NO_FLAGS: list[Any] = [None, 0, "yes"]


def producer(**options: Any) -> Any:
    return IdempotentProducer(CLIENT, options.pop("event_type", "x"), **options)


WRONG: dict[str, tuple[Callable[[Any], object], list[Any]]] = {
    "events": (lambda value: CLIENT.publish("x", value), [5]),
    "key": (lambda value: CLIENT.publish("x", {}, key=value), [5]),
    "progress": (lambda value: CLIENT.publish("x", {}, progress=value), [5]),
    "batch_events": (lambda value: CLIENT.publish("x", [{}], batch_events=value), [0, 1.5, *NO_NUMBERS]),
    "batch_bytes": (lambda value: CLIENT.publish("x", [{}], batch_bytes=value), [0, 1.5, *NO_NUMBERS]),
    "name": (CLIENT.event_type, NO_TEXTS),
    "name of a feed": (CLIENT.feed, NO_TEXTS),
    "name of a group": (CLIENT.consumer_group, NO_TEXTS),
    "cursors": (FEED.read, [5]),
    "cursors of a follower": (FEED.follow, [{"0": "_first"}]),
    "cursors to store": (lambda value: FEED.store("me", value), [5]),
    "page_size_hint": (lambda value: FEED.read(CURSORS, page_size_hint=value), ["5", -1]),
    "wait_seconds": (lambda value: FEED.read(CURSORS, wait_seconds=value), ["5", -1, math.inf, math.nan]),
    "event_types": (lambda value: FEED.read(CURSORS, event_types=value), ["a"]),
    "skip_event_types": (lambda value: FEED.read(CURSORS, event_types=["a"], skip_event_types=value), [["b"]]),
    "headers": (lambda value: FEED.read(CURSORS, headers=value), [3]),
    "cursor_set": (lambda value: FEED.read(CURSORS, cursor_set=value), [3, "", "x" * 51, "søster", "a\nb"]),
    "partitions": (lambda value: FEED.cursors(partitions=value), [3]),
    "start": (lambda value: FEED.follow(start=value), [3]),
    "poll_interval": (lambda value: FEED.follow(poll_interval=value), ["a"]),
    "definition": (CLIENT.replace_event_type, [5]),
    "schema": (lambda value: CLIENT.create_event_type("x", schema=value), [5]),
    "more": (lambda value: CLIENT.create_event_type("x", more=value), [5]),
    "positions": (lambda value: CLIENT.commit_positions("g", value), [[5]]),
    "items": (lambda value: CLIENT.reset_positions("g", value), [5]),
    "limit": (lambda value: CLIENT.group_history("g", limit=value), ["a"]),
    "subscription": (CLIENT.subscription, [5]),
    "retry": (lambda value: CLIENT.subscription("x", retry=value), [5]),
    "partitions of a stream": (lambda value: CLIENT.subscription("x", partitions=value), [["a"]]),
    "batch_limit": (lambda value: CLIENT.subscription("x", batch_limit=value), [0, -1, 1.5, True]),
    "batch_flush_timeout": (
        lambda value: CLIENT.subscription("x", batch_flush_timeout=value),
        [0, -1, float("inf"), True],
    ),
    "commit_timeout": (lambda value: CLIENT.subscription("x", commit_timeout=value), [0, -1, 0.5, True]),
    "batch_timespan": (lambda value: CLIENT.subscription("x", batch_timespan=value), [-1]),
    "max_uncommitted_events": (lambda value: CLIENT.subscription("x", max_uncommitted_events=value), [-1]),
    "stream_timeout": (lambda value: CLIENT.subscription("x", stream_timeout=value), [-1]),
    "stream_limit": (lambda value: CLIENT.subscription("x", stream_limit=value), [-1]),
    "handler": (lambda value: CLIENT.consume("x", value), [5]),
    "batch_limit of a consumer": (lambda value: CLIENT.consume("x", print, batch_limit=value), [0, True, 1.5]),
    "partitions of a consumer": (lambda value: CLIENT.consume("x", print, partitions=value), [["a"]]),
    "event_types of a subscription": (lambda value: CLIENT.create_subscription("me", value), ["a"]),
    "initial_cursors": (lambda value: CLIENT.create_subscription("me", ["a"], initial_cursors=value), [[5]]),
    "event_type": (lambda value: producer(event_type=value), [5]),
    "producer_group": (lambda value: producer(producer_group=value), [5]),
    "partition_options": (lambda value: producer(partition_options=value), [5]),
    "delivery_timeout": (lambda value: producer(delivery_timeout=value), ["a"]),
    "cancel_grace_seconds": (lambda value: producer(cancel_grace_seconds=value), ["a"]),
    "on_resolution": (lambda value: producer(on_resolution=value), [5]),
    "timeout": (lambda value: producer().send({}, partition=0, timeout=value), ["a"]),
    "max_bytes": (lambda value: producer().create_batch(0, value), ["a"]),
    "timeout of closing": (lambda value: producer().close(value), ["a"]),
    "partition_count of a share": (lambda value: share(value, 1, 0), ["a"]),
    "partition_count": (lambda value: Feed(HUB, partition_count=value), [0, "1", 1.5, True, [1]]),
    "version": (lambda value: Feed(HUB, version=value), [3, "2", [2]]),
    "merged": (lambda value: Feed(HUB, merged=value), NO_FLAGS),
    "merged of an async feed": (lambda value: AsyncFeed(HUB, merged=value), NO_FLAGS),
    "http": (lambda value: Client(HUB, http=value), [5]),
    "retry_timeout": (lambda value: Client(HUB, retry_timeout=value), [-1, *NO_NUMBERS]),
    "retry_timeout of an async client": (lambda value: AsyncClient(HUB, retry_timeout=value), [-1, *NO_NUMBERS]),
    "retry_timeout of a feed": (lambda value: Feed(HUB, retry_timeout=value), [-1, *NO_NUMBERS]),
    "max_attempts": (lambda value: RetryPolicy(max_attempts=value), [0, "1", 1.5, True]),
    "max_delay_seconds": (lambda value: RetryPolicy(max_delay_seconds=value), [0, *NO_NUMBERS]),
    "table": (lambda value: CursorTable(sqlite3.connect(":memory:"), table=value), ["", "a b", *NO_TEXTS]),
}


@pytest.mark.parametrize("argument", WRONG)
def test_wrong_argument_is_named_before_anything_is_sent(argument: str) -> None:
    call, values = WRONG[argument]
    name = argument.partition(" ")[0]

    for value in values:
        with pytest.raises((BadParameter, TypeError), match=rf"\b{name} is .*(allowed: |; pass )"):
            call(value)
