"""The way of a subscription from the command line, with a consumer that cannot process everything."""

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from penstock.testing.live_hub import live_hub
from tests.cli.command import Command
from tests.subscribing import Consumer, Subscription

QUICK = {"batch_limit": 100, "batch_flush_timeout": 1, "commit_timeout": 1}
ATTEMPTS = 2


@pytest.fixture
def made(penstock: Command, database_url: str) -> Iterator[Subscription]:
    """A subscription that parks, to 5 orders of which those of Ada cannot be processed."""
    with live_hub(database_url) as hub, httpx2.Client(base_url=hub.url, timeout=30) as http:
        penstock.environment["PENSTOCK_URL"] = hub.url
        penstock("event-type", "create", "order.placed", "--partition-key-field", "customer")
        words = ("order.placed", "--application", "billing", "--from", "begin", "--park-after", ATTEMPTS)
        shown = penstock("subscription", "create", *words, "-o", "json").json["subscription"]
        orders = enumerate(["Eve", "Ada", "Bob", "Ada", "Bob"])
        penstock("publish", "order.placed", given="\n".join(f'{{"customer":"{who}","n":{n}}}' for n, who in orders))
        yield Subscription(http, shown)


def consume(made: Subscription, *, poison: str) -> list[int]:
    """Consume until a stream has nothing more; whoever meets *poison* goes without committing. Return what was done."""
    done: list[int] = []
    while True:
        with made.stream(**QUICK) as consumer:
            while (batch := consumer.next()).events:
                if any(event["customer"] == poison for event in batch.events):
                    break
                consumer.done(batch)
                done += batch.numbers
            else:
                return done
            assert reason_of(consumer) == "Commit timeout reached"


def reason_of(consumer: Consumer) -> str:
    return consumer.reason()


def ask(penstock: Command, *words: object) -> Any:
    return penstock("subscription", *words, "-o", "json").json


def test_the_whole_way_of_a_subscription(penstock: Command, made: Subscription) -> None:
    short = made.id[:8]
    assert consume(made, poison="Ada") == [0, 2, 4]

    assert ask(penstock, "stats", short)["unconsumed_events"] == 0
    assert "1 key parked: `penstock subscription parked list " in penstock("subscription", "show", short).out
    listed = penstock("subscription", "parked", "list", short)
    [parked] = ask(penstock, "parked", "list", short)
    assert re.search(rf"{parked['id']} +order.placed +0 +Ada +2 +{ATTEMPTS} +20\S+Z +parked ", listed.out)
    assert (parked["first_offset"], parked["last_offset"], parked["events"]) == (1, 3, 2)

    shown = penstock("subscription", "parked", "show", short, parked["id"])
    assert shown.out.startswith("parked: key Ada in partition 0 of order.placed, since 20")
    assert f"2 events, of which the first was sent {ATTEMPTS} times\n" in shown.out
    assert [line.split() for line in shown.out.splitlines() if "Ada" in line][1:] == [
        ["1", '{"customer":"Ada","n":1}'],
        ["3", '{"customer":"Ada","n":3}'],
    ]

    assert penstock("subscription", "parked", "retry", short, parked["id"]).out == "1 key sent again\n"
    assert consume(made, poison="nobody") == [1, 3]
    assert penstock("subscription", "parked", "list", short).out == "No key is parked.\n"

    again = penstock("subscription", "reset", short, "--to", "begin", "--yes", "--reason", "once more")
    assert again.out.endswith(f"moved {made.id}: 1 position, 5 events again\n")
    assert consume(made, poison="Ada") == [0, 2, 4]
    [parked] = ask(penstock, "parked", "list", short)
    skipped = penstock("subscription", "parked", "skip", short, parked["id"], "--reason", "a test order")
    assert skipped.out == "skipped 2 events of key Ada\n"
    assert ask(penstock, "parked", "list", short) == []
    history = penstock("groups", "history", made.id, "-o", "json").json
    assert [(each["kind"], each["reason"]) for each in history] == [
        ("skipped", "a test order (key Ada)"),
        ("reset", "once more"),
    ]


def test_what_is_not_parked_is_told(penstock: Command, made: Subscription) -> None:
    unknown = penstock("subscription", "parked", "skip", made.id, 7, "--reason", "none")

    assert unknown.status == 1
    assert unknown.err.splitlines() == [
        f"penstock: subscription {made.id} has no parked key 7",
        "  GET /subscriptions/{subscription}/parked lists those that there are.",
    ]
    assert ask(penstock, "parked", "retry", made.id, "--all") == {"retried": 0}
    for words in (("retry", made.id), ("retry", made.id, "7", "--all"), ("skip", made.id, "7"), ("show", made.id)):
        assert penstock("subscription", "parked", *words).status == 2, words
