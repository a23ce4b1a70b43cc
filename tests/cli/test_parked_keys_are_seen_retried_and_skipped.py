"""The way of a subscription from the command line, with a consumer that cannot process everything."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx2
import pytest

from penstock.testing.live_hub import live_hub
from tests.cli.command import Command
from tests.subscribing import Subscription

QUICK = {"batch_limit": 100, "batch_flush_timeout": 1, "commit_timeout": 1, "stream_keep_alive_limit": 1}
ATTEMPTS = 2


@pytest.fixture
def made(penstock: Command, database_url: str) -> Iterator[Subscription]:
    """A subscription that parks keys, to 6 orders: of Ada and Eve in partition 0, of Bob and Dan in partition 1."""
    with live_hub(database_url) as hub, httpx2.Client(base_url=hub.url, timeout=30) as http:
        penstock.environment["PENSTOCK_URL"] = hub.url
        penstock("event-type", "create", "order.placed", "--partitions", 2, "--partition-key-field", "customer")
        words = ("order.placed", "--application", "billing", "--from", "begin", "--park-after", ATTEMPTS)
        shown = penstock("subscription", "create", *words, "-o", "json").json["subscription"]
        orders = enumerate(["Eve", "Ada", "Bob", "Ada", "Dan", "Bob"])
        penstock("publish", "order.placed", stdin="\n".join(f'{{"customer":"{who}","n":{n}}}' for n, who in orders))
        yield Subscription(http, shown)


def consume(made: Subscription, *poison: str) -> list[int]:
    """Consume until there is nothing more; what holds *poison* is not committed. Return what was, sorted."""
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


def ask(penstock: Command, *words: object) -> Any:
    return penstock("subscription", *words, "-o", "json").json


def test_the_whole_way_of_a_subscription(penstock: Command, made: Subscription) -> None:
    short = made.id[:8]
    assert consume(made) == [0, 1, 2, 3, 4, 5]
    assert ask(penstock, "stats", short)["gap"] == 0

    again = penstock("subscription", "reset", short, "--to", "begin", "--yes", "--reason", "once more")
    assert again.out.endswith(f"moved {made.id}: 2 positions, 6 events again\n")
    assert consume(made, "Ada", "Bob") == [0, 4]

    stats = ask(penstock, "stats", short)
    assert (stats["gap"], stats["parked_events"]) == (0, 4)
    assert penstock("subscription", "stats", short).out.endswith(", no stream, 0 events to go, 4 parked\n")
    assert "2 keys parked: `penstock subscription parked list " in penstock("subscription", "show", short).out
    listed = penstock("subscription", "parked", "list", short)
    ada, bob = sorted(ask(penstock, "parked", "list", short), key=lambda each: each["key"])
    assert re.search(rf"{ada['id']} +order.placed +0 +Ada +2 +{ATTEMPTS} +20\S+Z +parked ", listed.out)
    assert (ada["first_offset"], ada["last_offset"], bob["events"]) == (1, 2, 2)

    shown = penstock("subscription", "parked", "show", short, ada["id"])
    assert shown.out.startswith("parked: key Ada in partition 0 of order.placed, since 20")
    assert f"2 events, of which the first was sent {ATTEMPTS} times\n" in shown.out
    assert [line.split() for line in shown.out.splitlines() if '"Ada"' in line] == [
        ["1", '{"customer":"Ada","n":1}'],
        ["2", '{"customer":"Ada","n":3}'],
    ]

    assert penstock("subscription", "parked", "retry", short, ada["id"]).out == "1 key sent again\n"
    assert consume(made, "Bob") == [1, 3]
    skipped = penstock("subscription", "parked", "skip", short, bob["id"], "--reason", "a test order")
    assert skipped.out == "skipped 2 events of key Bob\n"
    assert penstock("subscription", "parked", "list", short).out == "No key is parked.\n"
    history = penstock("groups", "history", short, "-o", "json").json
    assert [(each["kind"], each["reason"]) for each in history] == [
        ("skipped", "a test order (key Bob)"),
        ("reset", "once more"),
        ("reset", "once more"),
    ]


def test_what_is_not_parked_is_told(penstock: Command, made: Subscription) -> None:
    unknown = penstock("subscription", "parked", "skip", made.id, 7, "--reason", "none")

    assert unknown.status == 1
    assert unknown.err.splitlines() == [
        f"penstock: subscription {made.id} has no parked key with the id 7",
        f"  `penstock subscription parked list {made.id}` has those that there are.",
    ]
    assert ask(penstock, "parked", "retry", made.id, "--all") == {"retried": 0}
    for words in (("retry", made.id), ("retry", made.id, "7", "--all"), ("show", made.id)):
        assert penstock("subscription", "parked", *words).status == 2, words


def test_why_keys_are_skipped_has_to_be_said(penstock: Command) -> None:
    for words in ((), ("--reason", ""), ("--reason", "  ")):
        unsaid = penstock("subscription", "parked", "skip", "5f0c", 7, *words, COLUMNS="300")
        assert unsaid.status == 2
        assert "say why these events are not wanted, such as --reason 'a test order'; it is kept" in unsaid.err
