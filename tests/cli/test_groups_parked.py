"""`penstock groups parked` of subscriptions: keys that cannot be processed are shown, retried and skipped."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from penstock.testing.live_hub import LiveHub
from tests.cli.command import Command
from tests.subscribing import Subscription

QUICK = {"batch_limit": 100, "batch_flush_timeout": 1, "commit_timeout": 1, "stream_keep_alive_limit": 1}
ATTEMPTS = 2


@pytest.fixture
def placed() -> str:
    """The name of the event type."""
    return f"placed-{uuid4().hex}"


@pytest.fixture
def made(at_hub: Command, hub: LiveHub, placed: str) -> Iterator[Subscription]:
    """A subscription that parks keys, to 6 orders: of Ada and Eve in partition 0, of Bob and Dan in partition 1."""
    with httpx2.Client(base_url=hub.url, timeout=30) as http:
        at_hub("event-type", "create", placed, "--partitions", 2, "--partition-key-field", "customer")
        words = (placed, "--application", "billing", "--from", "earliest", "--park-after", ATTEMPTS)
        shown = at_hub("subscription", "create", *words, "-o", "json").json["subscription"]
        orders = enumerate(["Eve", "Ada", "Bob", "Ada", "Dan", "Bob"])
        at_hub("publish", placed, stdin="\n".join(f'{{"customer":"{name}","n":{n}}}' for n, name in orders))
        yield Subscription(http, shown)
        at_hub("subscription", "delete", shown["id"], "--yes")


def consume(made: Subscription, *poison: str) -> list[int]:
    """Consume to the end without committing batches that contain *poison*; return the committed numbers, sorted."""
    done: list[int] = []
    while True:
        with made.stream(**QUICK) as consumer, suppress(StopIteration):
            while True:
                batch = consumer.next()
                if batch.events and not any(event["customer"] in poison for event in batch.events):
                    consumer.done(batch)
                    done += batch.numbers
        if consumer.seen[-1].debug != "Commit timeout reached":
            return sorted(done)


def ask(at_hub: Command, *words: object) -> Any:
    return at_hub("subscription", *words, "-o", "json").json


def ask_parked(at_hub: Command, *words: object) -> Any:
    return at_hub("groups", "parked", *words, "-o", "json").json


def test_parked_keys_are_shown_retried_and_skipped(at_hub: Command, made: Subscription, placed: str) -> None:
    short = made.id
    assert consume(made) == [0, 1, 2, 3, 4, 5]
    assert ask(at_hub, "stats", short)["gap"] == 0

    again = at_hub("groups", "reset", short, "--to", "earliest", "--yes", "--reason", "once more")
    assert again.out.endswith(f"moved {made.id}: 2 positions, 6 events again\n")
    assert consume(made, "Ada", "Bob") == [0, 4]

    stats = ask(at_hub, "stats", short)
    assert (stats["gap"], stats["parked_events"]) == (0, 4)
    assert at_hub("subscription", "stats", short).out.endswith(", no stream, 0 events to go, 4 parked\n")
    assert "2 keys parked: `penstock groups parked list " in at_hub("subscription", "show", short).out
    listed = at_hub("groups", "parked", "list", short)
    ada, bob = sorted(ask_parked(at_hub, "list", short), key=lambda each: each["key"])
    assert re.search(rf"{ada['id']} +{placed} +0 +Ada +2 +{ATTEMPTS} +20\S+Z +parked ", listed.out)
    assert (ada["first_offset"], ada["last_offset"], bob["events"]) == (1, 2, 2)

    shown = at_hub("groups", "parked", "show", short, ada["id"])
    assert shown.out.startswith(f"parked: key Ada in partition 0 of {placed}, since 20")
    assert f"2 events, of which the first was sent {ATTEMPTS} times\n" in shown.out
    assert [line.split() for line in shown.out.splitlines() if '"Ada"' in line] == [
        ["1", '{"customer":"Ada","n":1}'],
        ["2", '{"customer":"Ada","n":3}'],
    ]

    assert at_hub("groups", "parked", "retry", short, ada["id"]).out == f"1 key of {made.id} will be tried again\n"
    assert consume(made, "Bob") == [1, 3]
    skipped = at_hub("groups", "parked", "skip", short, bob["id"], "--reason", "a test order")
    assert skipped.out == "skipped 2 events of key Bob\n"
    assert at_hub("groups", "parked", "list", short).out == "No key is parked.\n"
    history = at_hub("groups", "history", short, "-o", "json").json
    assert [(each["kind"], each["reason"]) for each in history] == [
        ("skipped", "a test order (key Bob)"),
        ("reset", "once more"),
        ("reset", "once more"),
    ]


def test_unknown_parked_key_is_named(at_hub: Command, made: Subscription) -> None:
    unknown = at_hub("groups", "parked", "skip", made.id, 7, "--reason", "none")

    assert unknown.status == 1
    assert unknown.err.splitlines() == [
        f"penstock: subscription {made.id} has no parked key with the id 7",
        f"  `penstock groups parked list {made.id}` has those that there are.",
    ]
    assert ask_parked(at_hub, "retry", made.id, "--all") == {"name": made.id, "retried": 0}
