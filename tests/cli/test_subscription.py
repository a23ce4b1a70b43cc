"""`penstock subscription`, for people and for programs."""

import json
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx2
import msgspec
import pytest

from penstock.client import Client
from penstock.errors import SubscriptionNotFound
from penstock.testing.live_hub import LiveHub, live_hub
from penstock.testing.port import free_port
from tests.cli.command import Command
from tests.subscribing import Subscription

SHORT = 8
OFFSETS = "PARTITION=OFFSET, such as 0=1200, 0=earliest, 0=latest, 0=2026-11-20T10:00:00Z or 0=1h"
QUICK = {"batch_limit": 100, "batch_flush_timeout": 1}


@pytest.fixture
def made(client: Client, hub: LiveHub, orders: str) -> Iterator[Subscription]:
    """A subscription from the beginning to 5 orders, of two keys in two partitions."""
    client.publish(orders, [{"order_id": key} for key in "aaaab"])
    shown, _ = client.create_subscription("billing", [orders], start="earliest")
    with httpx2.Client(base_url=hub.url, timeout=30) as http:
        yield Subscription(http, msgspec.to_builtins(shown))
    with suppress(SubscriptionNotFound):
        client.subscription(shown.id).delete()


def counts_of(client: Client, orders: str) -> dict[int, int]:
    """Return the number of events of each partition that has events."""
    return {each.partition: each.head for each in client.partitions(orders) if each.head}


def test_subscription_is_created_once_and_found_by_the_beginning_of_its_id(at_hub: Command, orders: str) -> None:
    words = ("subscription", "create", orders, "--application", "billing", "--park-after", 3)

    first, again = at_hub(*words), at_hub(*words)
    other = at_hub(*words[:-1], 4, "--from", "earliest")
    made = first.out.split()[1]
    shown, by_all_of_it = (at_hub("subscription", "show", each.upper()) for each in (made[:12], made))
    as_json = at_hub("subscription", "show", made, "-o", "json").json

    assert first.out == f"created {made} (billing, default: {orders}), which starts at latest\n"
    assert again.out.startswith(f"{made} (billing, default: {orders}) was there already, since 20")
    assert shown == by_all_of_it
    assert (again.err, other.err) == ("", "--from and --park-after had no effect: it is as it was made\n")
    assert (again.status, other.status) == (0, 0)
    assert shown.out.splitlines()[:4] == [
        f"{made}  billing, default: {orders}",
        f"created {as_json['created_at']}, from latest",
        "penstock/park-after-attempts: 3",
        "4 partitions, no stream, not begun yet",
    ]
    assert (as_json["id"], as_json["parked_keys"]) == (made, 0)
    assert at_hub("subscription", "delete", made, "--yes").out == f"deleted {made} (billing, default: {orders})\n"


def test_ambiguous_beginning_of_an_id_lists_the_subscriptions(at_hub: Command, client: Client, orders: str) -> None:
    groups = {client.create_subscription("billing", [orders], consumer_group=f"{n}")[0].id: n for n in range(17)}
    [first, *_] = [each[0] for each in groups if sum(other[0] == each[0] for other in groups) > 1]

    several, none = at_hub("subscription", "stats", first), at_hub("subscription", "show", "zz")
    unknown = at_hub("subscription", "show", "00000000-0000-0000-0000-000000000000")
    longer = at_hub("subscription", "show", f"{next(iter(groups))}0")
    empty = at_hub("subscription", "delete", "", "--yes", COLUMNS="300")

    assert (several.status, none.status, unknown.status, empty.status) == (1, 1, 1, 2)
    assert re.match(rf"penstock: \d+ subscriptions have ids that begin with '{first}'\n", several.err)
    listed = {f"  {each}  billing, {n}: {orders}" for each, n in groups.items() if each[0] == first}
    assert listed <= set(several.err.splitlines())
    assert none.err.splitlines() == [
        "penstock: no subscription has an id that begins with 'zz'",
        "  `penstock subscription list` has all.",
    ]
    assert unknown.err.splitlines() == [
        'penstock: Subscription with id "00000000-0000-0000-0000-000000000000" does not exist',
        "  `penstock subscription list` has all.",
    ]
    assert longer.err.splitlines()[1] == "  `penstock subscription list` has all."
    assert "it is empty: `penstock subscription list` has all" in empty.err
    for each in groups:
        client.subscription(each).delete()


def test_list_shows_streams_and_gap(at_hub: Command, orders: str, made: Subscription) -> None:
    fresh = at_hub("subscription", "list", "--event-type", orders, COLUMNS="200").out
    with made.stream(**QUICK) as consumer:
        consumer.batch()
        listed = at_hub("subscription", "list", "--event-type", orders, COLUMNS="200").out
        [shown] = at_hub("subscription", "list", "--event-type", orders, "-o", "json").json

    assert re.search(rf"{made.id[:SHORT]} +billing +default +{orders} +4 +nobody +- +- ", fresh)
    assert re.search(rf"{made.id[:SHORT]} +billing +default +{orders} +4 +1 stream +5 +[0-9.]+ s ", listed)
    assert (shown["id"], shown["gap"], {each["stream_id"] for each in shown["partitions"]}) == (
        made.id, 5, {consumer.id}
    )  # fmt: skip
    other = at_hub("subscription", "list", "--event-type", orders, "--application", "nobody")
    assert other.out == "There are no such subscriptions: `penstock subscription create` makes one.\n"
    unknown = at_hub("subscription", "list", "--event-type", orders, "--event-type", "no.such", "-o", "json")
    assert (unknown.status, unknown.out) == (1, "")
    assert unknown.err.splitlines()[0] == "penstock: there is no event type 'no.such'"


def test_statistics_are_shown_by_partition_and_in_total(
    at_hub: Command, client: Client, orders: str, made: Subscription
) -> None:
    fresh = at_hub("subscription", "stats", made.id).out
    counts = counts_of(client, orders)
    with made.stream([max(counts)], **QUICK) as consumer:
        consumer.done(consumer.batch())
        table = at_hub("subscription", "stats", made.id, COLUMNS="200").out
        shown = at_hub("subscription", "stats", made.id, "-o", "json").json

    left = sum(counts.values()) - counts[max(counts)]
    assert fresh.endswith("\n4 partitions, no stream, not begun yet\n")
    assert re.search(rf"{orders} +{max(counts)} +assigned, asked for +0 +0 s +0 +{consumer.id}", table)
    assert re.search(
        rf"\n4 partitions, 1 stream, 3 without one, {left} events? to go, the oldest [0-9.]+ s old\n$", table
    )
    assert (shown["id"], shown["gap"], shown["streams"]) == (made.id, left, 1)
    assert {each["partition"]: each["gap"] for each in shown["partitions"] if each["gap"]} == {
        place: count for place, count in counts.items() if place != max(counts)
    }
    assert [each["stream_id"] for each in shown["partitions"]].count(consumer.id) == 1


def test_statistics_are_watched_until_interrupted(at_hub: Command, orders: str, made: Subscription) -> None:
    made.reset()  # It has cursors now, before any stream.
    words = ("subscription", "stats", made.id, "--watch", "--interval", "0.1", "-o", "json")

    with at_hub.start(*words) as watching:
        before = json.loads(watching.stdout.readline())
        at_hub("publish", orders, stdin='{"order_id":"c"}')
        while json.loads(watching.stdout.readline())["gap"] == before["gap"]:
            pass
        watching.send_signal(signal.SIGINT)
        assert watching.wait(300) == 0
        assert watching.stderr.read() == b""


def test_reset_shows_the_moves_and_asks_first(at_hub: Command, client: Client, orders: str, made: Subscription) -> None:
    made.reset()  # It has cursors now, before any stream.
    words = ("groups", "reset", made.id, "--to", "latest")

    dry = at_hub(*words, "--dry-run")
    refused = at_hub(*words)
    untouched = client.subscription(made.id).cursors()
    agreed = at_hub(*words, "--reason", "none is wanted", stdin="y\n")

    place, count = max(counts_of(client, orders).items())
    row = rf"{orders} +- +{place} +0 +{count} +{count} +0 "
    assert all(re.search(row, each.out) for each in (dry, refused, agreed))
    assert dry.out.endswith(f"\nwould move {made.id}: 4 positions, 5 events passed over\n")
    assert refused.err.splitlines() == [
        f"Move {made.id}: 4 positions, 5 events passed over? [y/N] ",
        "penstock: nobody said yes, nothing was moved",
        "  --yes moves without asking.",
    ]
    assert (dry.status, refused.status, agreed.status) == (0, 1, 0)
    assert {each.offset for each in untouched} == {0}
    assert agreed.out.endswith(f"\nmoved {made.id}: 4 positions, 5 events passed over\n")
    assert sum(each.offset for each in client.subscription(made.id).cursors()) == 5
    history = client.group_history(made.id)
    assert {(each.kind, each.reason) for each in history} == {("reset", "none is wanted")}


def test_reset_ends_the_streams_and_says_so(at_hub: Command, client: Client, orders: str, made: Subscription) -> None:
    place = max(counts_of(client, orders))
    with made.stream(**QUICK) as consumer:
        batch = next(each for each in (consumer.batch(), consumer.batch()) if each.partition == str(place))
        consumer.done(batch)
        moved = at_hub("groups", "reset", made.id, "--offset", f"{place}=0", "--yes")
        assert consumer.reason() == "Resetting subscription cursors"

    assert moved.err == f"moving {made.id} once the end of 1 stream has come.\n"
    assert "1 position, " in moved.out
    assert moved.out.endswith(" again\n")
    assert client.subscription(made.id).cursors()[place].offset == 0


def test_reset_moves_to_an_offset_an_end_or_a_time(
    at_hub: Command, client: Client, orders: str, made: Subscription
) -> None:
    place, count = max(counts_of(client, orders).items())

    def reset(*words: object) -> Any:
        return at_hub("groups", "reset", made.id, *words, "--yes", "-o", "json").json["items"]

    [moved] = reset("--offset", f"{place}={count}", "--event-type", orders)
    assert (moved["came_from"], moved["offset"], moved["gap"]) == (None, count, 0)
    assert [each["offset"] for each in reset("--offset", f"{place}=earliest")] == [0]
    assert [each["offset"] for each in reset("--offset", f"{place}=1h")] == [0]
    assert [each["offset"] for each in reset("--offset", f"{place}=LATEST")] == [count]
    assert [each["offset"] for each in reset("--offset", f"{place}=2020-01-01T00:00:00Z")] == [0]
    assert [each["offset"] for each in reset("--offset", f"{place}={count}")] == [count]
    assert {each["offset"] for each in reset("--to", "2020-01-01T00:00:00Z")} == {0}
    assert sum(each["offset"] for each in reset("--to", "2999-01-01T00:00:00Z")) == 5
    assert {each["came_from"] for each in reset("--to", "earliest")} >= {0, count}


def test_unusable_target_of_a_reset_moves_nothing(at_hub: Command, client: Client, made: Subscription) -> None:
    cases = {
        (): (2, "say where to, by --to, by --offset or by --like"),
        ("--to", "latest", "--offset", "0=1"): (2, "say where to, by --to, by --offset or by --like"),
        ("--offset", "0:1"): (2, f"'0:1' is not {OFFSETS}"),
        ("--offset", "0=-5"): (2, f"'0=-5' is not {OFFSETS}"),
        ("--offset", "end"): (2, f"'end' is not {OFFSETS}"),
        ("--offset", "0=99"): (1, "offset 99 is not from 0 (the first event that is there) to "),
        ("--offset", "9=0"): (1, "it has 4, numbered from 0"),
        ("--to", "latest", "--event-type", "other"): (1, "items[0], 'other': the subscription does not read this"),
        ("--to", "latest", "--reason", "x" * 1_001): (1, "reason"),
        ("--to", "noon"): (2, "'noon' is not earliest, latest, a time such as 2026-11-20T10:00:00Z, or a duration"),
    }

    for options, (status, told) in cases.items():
        refused = at_hub("groups", "reset", made.id, "--yes", *options, COLUMNS="300")
        assert (refused.status, told in refused.err) == (status, True), (options, refused.err)
        assert refused.out == "", "nothing is announced that is refused"
    assert client.subscription(made.id).cursors() == []


def test_offset_of_one_of_several_event_types_requires_its_name(at_hub: Command, client: Client, orders: str) -> None:
    client.create_event_type(f"{orders}-too")
    both, _ = client.create_subscription("billing", [orders, f"{orders}-too"])

    refused = at_hub("groups", "reset", both.id, "--offset", "0=0", "--yes", COLUMNS="300")
    moved = at_hub("groups", "reset", both.id, "--offset", "0=0", "--event-type", orders, "--yes")

    assert refused.status == 2
    assert f"say which event type; {both.id} reads " in refused.err
    assert moved.status == 0
    client.subscription(both.id).delete()


@pytest.mark.parametrize("start", ["1h", "2020-01-01T00:00:00Z"])
def test_subscription_starts_at_a_time_or_a_duration_ago(
    at_hub: Command, client: Client, orders: str, made: Subscription, start: str
) -> None:
    words = ("subscription", "create", orders, "--application", "billing", "--group", "late", "--from", start)

    created = at_hub(*words)
    later = created.out.split()[1]
    at_hub("groups", "reset", later, "--offset", "3=latest", "--yes")

    assert ", which starts with the first event received at 20" in created.out
    assert client.subscription(later).show().read_from == "cursors"
    assert {each["offset"] for each in client.subscription(later).show().initial_cursors} == {"001-0001--1"}
    client.subscription(later).delete()


def test_subscription_begins_at_the_cursors_of_a_file(
    at_hub: Command, client: Client, hub: LiveHub, orders: str, made: Subscription
) -> None:
    at_hub("groups", "reset", made.id, "--to", "latest", "--yes")
    shown = httpx2.get(f"{hub.url}/subscriptions/{made.id}/cursors").text
    (at_hub.directory / "cursors.json").write_text(shown)
    (at_hub.directory / "broken.json").write_text('{"items": 7}')
    words = ("subscription", "create", orders, "--application", "billing", "--group", "copy", "--from")

    wrong = [at_hub(*words, file, COLUMNS="300") for file in ("broken.json", "begin")]
    first = at_hub(*words, "cursors.json")
    again = at_hub(*words, "-", stdin=json.dumps(json.loads(shown)["items"]))
    copy = first.out.split()[1]
    at_hub("groups", "reset", copy, "--offset", "0=0", "--yes")

    assert [each.status for each in wrong] == [2, 2]
    assert "'begin' is not earliest, latest, a time such as 2026-11-20T10:00:00Z, or a duration ago" in wrong[1].err
    assert "or a file that is there" in wrong[1].err
    assert first.out.endswith(", which starts at the cursors in cursors.json\n")
    assert (again.err, " was there already, " in again.out) == ("", True)
    assert client.subscription(copy).cursors()[1:] == client.subscription(made.id).cursors()[1:]
    client.subscription(copy).delete()


def test_delete_asks_first(at_hub: Command, orders: str, made: Subscription) -> None:
    made.reset()  # It has cursors now, before any stream.

    refused = at_hub("subscription", "delete", made.id, stdin="n\n")
    agreed = at_hub("subscription", "delete", made.id, "-o", "json", stdin="y\n")

    assert refused.status == 1
    assert re.match(
        rf"Delete {made.id} \(billing, default: {orders}; 4 partitions, no stream, 5 events to go, .* old\) for ever\?",
        refused.err,
    )
    assert agreed.json == {"id": made.id}
    assert at_hub("subscription", "show", made.id).status == 1


def test_watching_continues_after_the_hub_has_restarted(penstock: Command) -> None:
    with live_hub(f"sqlite:///{penstock.directory}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type("order.placed")
        made, _ = client.create_subscription("billing", ["order.placed"])
        words = ("subscription", "stats", made.id, "--watch", "--interval", "0.1", "-o", "json", "--url", hub.url)
        with penstock.start(*words) as watching:
            assert json.loads(watching.stdout.readline())["gap"] is None
            hub.kill()
            away = watching.stderr.readline().decode()
            hub.start()
            client.subscription(made.id).reset(to="latest")
            while json.loads(watching.stdout.readline())["gap"] is None:
                pass
            hub.kill()
            away_again = watching.stderr.readline().decode()
            hub.start()
            client.subscription(made.id).delete()
            status, rest = watching.wait(300), watching.stderr.read().decode().splitlines()

    for told in (away, away_again):
        assert re.fullmatch(rf"penstock: .*{hub.url}.*; trying again until the hub is back\n", told)
    assert (status, rest) == (
        1,
        [f'penstock: Subscription with id "{made.id}" does not exist', "  `penstock subscription list` has all."],
    )


def test_watching_an_unreachable_hub_ends(penstock: Command) -> None:
    failed = penstock("subscription", "stats", "5f0c", "--watch", "--url", f"http://127.0.0.1:{free_port()}")

    assert (failed.status, failed.out) == (1, "")
    assert failed.err.splitlines()[1].startswith("  Is the hub running? ")
