"""`penstock groups`, for people and for programs."""

import re

import pytest

from penstock.client import Client, NewPosition
from tests.cli.command import Command


@pytest.fixture
def group(client: Client, orders: str) -> str:
    """A processor that has read 2 of about a dozen orders, in one partition."""
    client.publish(orders, [{"order_id": f"{n}"} for n in range(12)])
    name = f"billing of {orders}"
    partition = next(each for each in client.partitions(orders) if each.head >= 2)
    client.commit_positions(name, [NewPosition(orders, partition.partition, 2)], kind="processor")
    return name


def offsets(client: Client, group: str) -> dict[int, int]:
    return {each.partition: each.offset for each in client.consumer_group(group).positions}


def test_groups_are_listed_and_shown_by_partition_with_their_gap(
    at_hub: Command, client: Client, group: str, orders: str
) -> None:
    gap = client.consumer_group(group).gap

    for words in (("groups",), ("groups", "list")):
        table = at_hub(*words, COLUMNS="200").out.splitlines()
        assert [" ".join(line.split()[-4:-2]) for line in table if group in line] == [f"{orders} {gap}"]
    [listed] = at_hub("groups", "--event-type", orders, "-o", "json").json
    assert (listed["name"], listed["kind"], listed["gap"]) == (group, "processor", gap)
    assert at_hub("groups", "--event-type", orders, "--kind", "spark").out == (
        f"Nobody reads {orders} as a spark whose positions the hub keeps.\n"
    )

    [partition] = offsets(client, group)

    shown = at_hub("groups", "show", group)

    head = client.consumer_group(group).positions[0].head
    assert shown.out.startswith(f"{group}: processor, ")
    assert re.search(rf"{orders} +- +{partition} +2 +{head} ", shown.out)
    assert "cannot go on" not in shown.out
    assert at_hub("groups", "show", group, "-o", "json").json["positions"][0]["offset"] == 2
    assert at_hub("groups", "show", "nobody").err.splitlines() == [
        "penstock: there is no consumer group 'nobody'",
        "  `penstock groups` has all; a group is made with the first position that it commits.",
    ]


def test_reset_asks_first_and_is_kept_in_the_history(at_hub: Command, client: Client, group: str, orders: str) -> None:
    [partition] = offsets(client, group)
    words = ("groups", "reset", group, "--partition", partition, "--to", "earliest")

    tried = at_hub(*words, "--dry-run")
    assert tried.out.endswith(f"would move {group}: 1 position, 2 events again\n")
    refused = at_hub(*words, stdin="n\n")
    assert f"Move {group}: 1 position, 2 events again?" in refused.err
    assert refused.err.endswith("nobody said yes, nothing was moved\n  --yes moves without asking.\n")
    assert offsets(client, group) == {partition: 2}

    moved = at_hub(*words, "--reason", "mails were lost", "--yes", "-o", "json").json
    assert [(each["came_from"], each["offset"]) for each in moved["items"]] == [(2, 0)]
    assert offsets(client, group) == {partition: 0}
    shown = at_hub("groups", "history", group).out
    assert "mails were lost" in shown
    [kept] = at_hub("groups", "history", group, "-o", "json").json
    assert (kept["went_to"], kept["came_from"], kept["kind"]) == (0, 2, "reset")


def test_group_is_reset_to_the_end_an_offset_or_a_time(
    at_hub: Command, client: Client, group: str, orders: str
) -> None:
    ends = {each.partition: each.head for each in client.partitions(orders)}
    [partition] = offsets(client, group)

    assert at_hub("groups", "reset", group, "--to", "latest", "-y").status == 0
    assert offsets(client, group) == ends
    one = at_hub("groups", "reset", group, "--event-type", orders, "--partition", partition, "--offset", 1, "-y")
    assert f"\nmoved {group}: 1 position, {ends[partition] - 1} event" in one.out
    assert offsets(client, group) == ends | {partition: 1}
    assert at_hub("groups", "reset", group, "--to", "2020-01-01T00:00:00Z", "-y").status == 0
    assert set(offsets(client, group).values()) == {0}


def test_unusable_target_of_a_reset_is_refused(at_hub: Command, client: Client, group: str, orders: str) -> None:
    client.create_event_type(f"{orders}.more")
    client.commit_positions(group, [NewPosition(f"{orders}.more", 0, 0)])
    cases = {
        "--to yesterday": (2, "not earliest, latest, a time"),
        f"--event-type {orders} --partition 0 --offset 99": (1, "99 is beyond its end"),
        "--partition 0 --to latest": (2, "say which event type"),
    }
    for options, (status, says) in cases.items():
        refused = at_hub("groups", "reset", group, *options.split(), "-y", COLUMNS="200")
        assert (refused.status, says in refused.err) == (status, True), (options, refused.err)
    client.delete_event_type(f"{orders}.more")


def test_subscription_is_found_by_the_beginning_of_its_id_and_deleted(
    at_hub: Command, client: Client, orders: str
) -> None:
    made, other = (client.create_subscription("mailer", [orders], consumer_group=each)[0].id for each in "ab")
    short = made[:20]

    shown, history = at_hub("groups", "show", short), at_hub("groups", "history", short.upper())
    refused = at_hub("groups", "delete", short, stdin="n\n")

    assert shown.out == f"{made}: subscription, not begun yet\nsubscribed by mailer, a\n"
    assert history.out == f"Nobody has moved {made}.\n"
    assert (refused.status, f"Forget {made}, which has not begun yet, for ever?" in refused.err) == (1, True)
    assert at_hub("groups", "delete", short, "--yes").out == f"deleted {made}\n"
    assert at_hub("groups", "show", short).status == 1
    client.subscription(other).delete()


def test_group_precedes_a_subscription_with_such_an_id(at_hub: Command, client: Client, orders: str) -> None:
    made = client.create_subscription("mailer", [orders])[0].id
    client.commit_positions(made[:8], [NewPosition(orders, 0, 0)], kind="processor")

    assert at_hub("groups", "show", made[:8]).out.startswith(f"{made[:8]}: processor, ")
    assert at_hub("groups", "history", made[:9]).out == f"Nobody has moved {made}.\n"
    client.subscription(made).delete()
    client.forget_group(made[:8])


def test_delete_asks_first(at_hub: Command, client: Client, group: str) -> None:
    refused = at_hub("groups", "delete", group, stdin="n\n")
    assert f"Forget {group}, which has " in refused.err
    assert refused.status == 1

    assert at_hub("groups", "delete", group, "--yes").out == f"deleted {group}\n"
    assert at_hub("groups", "delete", group, "--yes").status == 1
