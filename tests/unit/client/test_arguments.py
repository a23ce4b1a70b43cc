"""Arguments of a wrong type are refused before a request is sent, by an error that names the argument."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.client import Client, IdempotentProducer, share
from penstock.errors import BadParameter

CLIENT: Any = Client("http://localhost:1", retry_timeout=0)
FEED: Any = CLIENT.feed("x", partition_count=1)
CURSORS = {0: "_first"}


def producer(**options: Any) -> Any:
    return IdempotentProducer(CLIENT, options.pop("event_type", "x"), **options)


WRONG: dict[str, Callable[[], object]] = {
    "events": lambda: CLIENT.publish("x", 5),
    "key": lambda: CLIENT.publish("x", {}, key=5),
    "progress": lambda: CLIENT.publish("x", {}, progress=5),
    "batch_events": lambda: CLIENT.publish("x", {}, batch_events="a"),
    "name": lambda: CLIENT.feed(3),
    "cursors": lambda: FEED.read(5),
    "cursors of a follower": lambda: FEED.follow({"0": "_first"}),
    "cursors to store": lambda: FEED.store("me", 5),
    "page_size_hint": lambda: FEED.read(CURSORS, page_size_hint="5"),
    "wait_seconds": lambda: FEED.read(CURSORS, wait_seconds="5"),
    "event_types": lambda: FEED.read(CURSORS, event_types="a"),
    "headers": lambda: FEED.read(CURSORS, headers=3),
    "cursor_set": lambda: FEED.read(CURSORS, cursor_set=3),
    "partitions": lambda: FEED.cursors(partitions=3),
    "start": lambda: FEED.follow(start=3),
    "poll_interval": lambda: FEED.follow(poll_interval="a"),
    "definition": lambda: CLIENT.replace_event_type(5),
    "schema": lambda: CLIENT.create_event_type("x", schema=5),
    "more": lambda: CLIENT.create_event_type("x", more=5),
    "positions": lambda: CLIENT.commit_positions("g", [5]),
    "items": lambda: CLIENT.reset_positions("g", 5),
    "limit": lambda: CLIENT.group_history("g", limit="a"),
    "subscription": lambda: CLIENT.subscription(5),
    "retry": lambda: CLIENT.subscription("x", retry=5),
    "partitions of a stream": lambda: CLIENT.subscription("x", partitions=["a"]),
    "handler": lambda: CLIENT.consumer("x", 5),
    "grace_seconds": lambda: CLIENT.consumer("x", print, grace_seconds="a"),
    "event_types of a subscription": lambda: CLIENT.subscriptions.create("me", "a"),
    "initial_cursors": lambda: CLIENT.subscriptions.create("me", ["a"], initial_cursors=[5]),
    "event_type": lambda: producer(event_type=5),
    "producer_group": lambda: producer(producer_group=5),
    "partition_options": lambda: producer(partition_options=5),
    "delivery_timeout": lambda: producer(delivery_timeout="a"),
    "cancel_grace_seconds": lambda: producer(cancel_grace_seconds="a"),
    "on_resolution": lambda: producer(on_resolution=5),
    "timeout": lambda: producer().send({}, partition=0, timeout="a"),
    "max_bytes": lambda: producer().create_batch(0, "a"),
    "timeout of closing": lambda: producer().close("a"),
    "partition_count": lambda: share("a", 1, 0),  # type: ignore[arg-type]
    "http": lambda: Client("http://x", http=5),
    "retry_timeout": lambda: Client("http://x", retry_timeout="a"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("argument", WRONG)
def test_argument_of_a_wrong_type_is_named_before_anything_is_sent(argument: str) -> None:
    name = argument.partition(" ")[0]

    with pytest.raises((BadParameter, TypeError), match=rf"\b{name} is "):
        WRONG[argument]()
