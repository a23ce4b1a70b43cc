"""`penstock publish --producer-group`: repeated after any failure, it stores each event once."""

import json
import signal
from typing import Any

import httpx2
import pytest

from penstock.client import Client
from penstock.testing.live_hub import live_hub
from tests.cli.command import Command
from tests.promises.scene import until

EVENTS = [{"order_id": f"order-{n % 97}", "n": n} for n in range(3_000)]
GROUP = ("--producer-group", "nightly")


def write(at_hub: Command, events: list[Any], name: str = "orders.ndjson") -> str:
    (at_hub.directory / name).write_text("".join(json.dumps(event) + "\n" for event in events))
    return name


def stored(at_hub: Command, event_type: str) -> list[Any]:
    read = at_hub("tail", event_type, "--from", "earliest", "--no-follow", "-o", "json")
    return [line["data"] for line in read.lines]


def by_order(events: list[Any]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for event in events:
        found.setdefault(event["order_id"], []).append(event["n"])
    return found


def wait_until_stored(client: Client, event_type: str, count: int) -> None:
    until(lambda: sum(each.head for each in client.partitions(event_type)) >= count, f"{count} events are stored")


def test_repeatedly_killed_publish_ends_with_each_event_once_and_in_order(
    client: Client, at_hub: Command, orders: str
) -> None:
    file = write(at_hub, EVENTS)
    for count in (1, 700, 1_500):
        with at_hub.start("publish", orders, file, "--batch", 100, *GROUP) as process:
            wait_until_stored(client, orders, count)
            process.send_signal(signal.SIGKILL)
            process.wait()

    done = at_hub("publish", orders, file, "--batch", 100, *GROUP, "-o", "json")

    assert done.status == 0, done.err
    assert done.json["skipped"] >= 1_500
    assert done.json["skipped"] + done.json["count"] == len(EVENTS)
    assert by_order(stored(at_hub, orders)) == by_order(EVENTS)


def test_publish_waits_for_a_hub_that_is_killed_meanwhile(sqlite_url: str, penstock: Command) -> None:
    events = EVENTS[:1_000]
    with live_hub(sqlite_url) as hub, Client(hub.url) as client:
        at_hub = penstock.at(hub.url)
        assert at_hub("event-type", "create", "orders", "--partitions", 2).status == 0
        with at_hub.start("publish", "orders", write(at_hub, events), "--batch", 10, *GROUP) as process:
            for count in (1, 300):
                wait_until_stored(client, "orders", count)
                hub.kill()
                hub.start()
            _, said = process.communicate()
            assert process.returncode == 0, said
        assert sorted(event["n"] for event in stored(at_hub, "orders")) == list(range(len(events)))


def test_file_or_pipe_that_has_grown_is_continued(at_hub: Command, orders: str) -> None:
    first, again = (at_hub("publish", orders, write(at_hub, EVENTS[:1_500]), *GROUP) for _ in range(2))
    grown = at_hub("publish", orders, write(at_hub, EVENTS[:2_000]), *GROUP)
    piped = at_hub("publish", orders, *GROUP, stdin=(at_hub.directory / "orders.ndjson").read_text())

    assert first.out.startswith(f"published 1 500 events to {orders} in ")
    assert again.out.startswith(f"published 0 events to {orders} in ")
    assert again.out.endswith("; 1 500 events of nightly were there\n")
    assert grown.out.startswith(f"published 500 events to {orders} in ")
    assert piped.out.startswith("published 0 events")
    assert by_order(stored(at_hub, orders)) == by_order(EVENTS[:2_000])


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([*EVENTS[:1_999], {"order_id": EVENTS[1_999]["order_id"], "n": -1}], "is another"),
        (EVENTS[:1_000], "and these are"),
        ([{"order_id": "x", "n": n} for n in range(5_000)], "is another"),
    ],
    ids=["other last event", "shorter", "all others"],
)
def test_other_input_for_the_same_group_is_refused_before_anything_is_stored(
    at_hub: Command, orders: str, events: list[Any], reason: str
) -> None:
    assert at_hub("publish", orders, write(at_hub, EVENTS[:2_000]), *GROUP).status == 0

    refused = at_hub("publish", orders, write(at_hub, events, "other.ndjson"), *GROUP)

    assert refused.status == 1
    assert (
        f"penstock: the replay differs from the events that 'nightly' has published to '{orders}', partition "
        in refused.err
    )
    assert reason in refused.err
    assert "Use a separate producer group for each series of events or file" in refused.err
    assert (" of other.ndjson)" in refused.err) == (reason == "is another")
    assert " stored" not in refused.err.partition("see what is stored")[2]
    assert "Give the same command again" not in refused.err
    assert by_order(stored(at_hub, orders)) == by_order(EVENTS[:2_000])


@pytest.mark.parametrize("change", [{"key": "b"}, {"headers": {"h": "2"}}, {"headers": {"h": "1", "i": "1"}}], ids=str)
def test_other_key_or_headers_of_the_last_event_are_refused(
    at_hub: Command, orders: str, change: dict[str, Any]
) -> None:
    name = f"{orders}.one"  # Of one partition: another key would else lead to another one.
    assert at_hub("event-type", "create", name).status == 0
    line = {"data": {"n": 1}, "key": "a", "headers": {"h": "1"}}
    assert at_hub("publish", name, *GROUP, stdin=json.dumps(line)).status == 0

    same = at_hub("publish", name, *GROUP, stdin=json.dumps(line))
    other = at_hub("publish", name, *GROUP, stdin=json.dumps(line | change))

    assert "1 event of" in same.out and same.out.endswith(" was there\n")
    assert (other.status, "is another (line 1 of standard input)" in other.err) == (1, True)


def test_refused_line_is_named_and_the_mended_file_is_continued(at_hub: Command, orders: str) -> None:
    bad = [*EVENTS[:300], {"n": 0}, *EVENTS[300:400]]
    refused = at_hub("publish", orders, write(at_hub, bad), "--batch", 10, *GROUP)
    mended = at_hub("publish", orders, write(at_hub, EVENTS[:400]), "--batch", 10, *GROUP)

    assert refused.status == 1
    assert "line 301 of orders.ndjson: partition key field 'order_id' is missing" in refused.err
    assert "Mend the line, and give the same command again: it goes" in refused.err
    assert mended.status == 0
    assert by_order(stored(at_hub, orders)) == by_order(EVENTS[:400])


def test_repeated_business_events_keep_their_ids(at_hub: Command, orders: str) -> None:
    name = f"{orders}.billed"
    assert at_hub("event-type", "create", name, "--category", "business").status == 0
    file = write(at_hub, [{"n": n} for n in range(30)])

    assert at_hub("publish", name, file, "--batch", 10, *GROUP).status == 0
    again = at_hub("publish", name, file, "--batch", 10, *GROUP)

    assert "published 0 events" in again.out
    found = stored(at_hub, name)
    assert [event["n"] for event in found] == list(range(30))
    assert len({event["metadata"]["eid"] for event in found}) == 30


def test_two_concurrent_commands_store_nothing_twice(at_hub: Command, orders: str) -> None:
    events = EVENTS[:500]
    file = write(at_hub, events)
    with (
        at_hub.start("publish", orders, file, "--batch", 20, *GROUP) as one,
        at_hub.start("publish", orders, file, "--batch", 30, *GROUP) as other,
    ):
        for each in (one, other):
            _, said = each.communicate()
            refusal = f"another process publishes to '{orders}' as 'nightly'".encode()
            assert each.returncode == 0 or refusal in said

    assert at_hub("publish", orders, file, *GROUP).status == 0
    assert by_order(stored(at_hub, orders)) == by_order(events)


@pytest.mark.parametrize("claim", [{"pinned": True}, {"epoch": 7}, None], ids=["pinned", "taken over", "deleted"])
def test_group_claimed_or_deleted_by_another_is_not_continued(
    at_hub: Command, orders: str, claim: dict[str, Any] | None
) -> None:
    """The numbers of another epoch do not tell how much of the file is stored."""
    file = write(at_hub, EVENTS[:500])
    assert at_hub("publish", orders, file, *GROUP).status == 0
    producers = f"{at_hub.environment['PENSTOCK_URL']}/event-types/{orders}/partitions/1/producers"
    assert [each["expires_at"] for each in httpx2.get(producers).json()["items"]] == [None]
    if claim:
        assert httpx2.put(f"{producers}/nightly", json=claim).status_code == 200
    else:
        assert httpx2.delete(f"{producers}/nightly").status_code == 204

    refused = at_hub("publish", orders, file, *GROUP)

    says = "partition 1: another producer has claimed epoch" if claim else "the producer group was deleted on request"
    assert (refused.status, says in refused.err) == (1, True)
    assert by_order(stored(at_hub, orders)) == by_order(EVENTS[:500])
