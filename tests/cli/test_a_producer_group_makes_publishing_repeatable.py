"""`penstock publish --producer-group`: however often, and after whatever failure, each event is stored once."""

import json
import signal
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock.client import Client
from penstock.testing.live_hub import LiveHub
from tests.cli.command import Command
from tests.promises.scene import until

EVENTS = [{"order_id": f"order-{n % 97}", "n": n} for n in range(20_000)]
GROUP = ("--producer-group", "nightly")


def write(at_hub: Command, events: list[Any], name: str = "orders.ndjson") -> str:
    (at_hub.directory / name).write_text("".join(json.dumps(event) + "\n" for event in events))
    return name


def stored(at_hub: Command, event_type: str) -> list[Any]:
    read = at_hub("tail", event_type, "--from", "first", "--no-follow", "-o", "json")
    return [line["data"] for line in read.lines]


def by_order(events: list[Any]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for event in events:
        found.setdefault(event["order_id"], []).append(event["n"])
    return found


def test_a_command_that_is_killed_again_and_again_ends_with_each_event_once_and_in_order(
    hub: LiveHub, at_hub: Command, orders: str
) -> None:
    file = write(at_hub, EVENTS)
    with Client(hub.url) as client:

        def count_stored() -> int:
            return sum(partition.head for partition in client.partitions(orders))

        for wanted in (1, 4_000, 9_000):
            with at_hub.started("publish", orders, file, "--batch", 100, *GROUP) as process:
                until(lambda wanted=wanted: count_stored() >= wanted, "some are stored")  # type: ignore[misc]
                process.send_signal(signal.SIGKILL)
                process.wait()

    done = at_hub("publish", orders, file, "--batch", 100, *GROUP, "-o", "json")

    assert done.status == 0, done.err
    assert done.json["skipped"] >= 9_000
    assert done.json["skipped"] + done.json["count"] == len(EVENTS)
    assert by_order(stored(at_hub, orders)) == by_order(EVENTS)


def test_a_hub_that_is_killed_meanwhile_is_waited_for(tmp_path: Path, penstock: Command) -> None:
    hub = LiveHub(f"sqlite:///{tmp_path}/hub.db")
    hub.start()
    at_hub = Command(penstock.directory, penstock.environment | {"PENSTOCK_URL": hub.url})
    assert at_hub("event-type", "create", "orders", "--partitions", 2).status == 0
    file = write(at_hub, EVENTS)
    try:
        with at_hub.started("publish", "orders", file, "--batch", 50, *GROUP) as process:
            for _ in range(3):
                with Client(hub.url) as client:
                    before = sum(each.head for each in client.partitions("orders"))
                    until(lambda: sum(each.head for each in client.partitions("orders")) > before + 500, "it goes on")  # noqa: B023
                hub.kill()
                hub.start()
            _, said = process.communicate(timeout=120)
            assert process.returncode == 0, said
        assert sorted(event["n"] for event in stored(at_hub, "orders")) == list(range(len(EVENTS)))
    finally:
        hub.kill()


def test_what_has_grown_is_gone_on_with(at_hub: Command, orders: str) -> None:
    first = at_hub("publish", orders, write(at_hub, EVENTS[:1_500]), *GROUP)
    again = at_hub("publish", orders, write(at_hub, EVENTS[:1_500]), *GROUP)
    grown = at_hub("publish", orders, write(at_hub, EVENTS[:2_000]), *GROUP)

    assert first.out.startswith(f"published 1 500 events to {orders} in ")
    assert again.out.startswith(f"published 0 events to {orders} in ")
    assert again.out.endswith("; 1 500 events of nightly were there\n")
    assert grown.out.startswith(f"published 500 events to {orders} in ")
    assert by_order(stored(at_hub, orders)) == by_order(EVENTS[:2_000])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([*EVENTS[:1_999], {"order_id": EVENTS[1_999]["order_id"], "n": -1}], "is another"),
        (EVENTS[:1_000], "and these are"),
        ([{"order_id": "x", "n": n} for n in range(5_000)], "is another"),
    ],
    ids=["its last event is another", "it is shorter", "it is another"],
)
def test_another_input_under_the_same_name_is_refused_before_anything_is_stored(
    at_hub: Command, orders: str, given: list[Any], reason: str
) -> None:
    assert at_hub("publish", orders, write(at_hub, EVENTS[:2_000]), *GROUP).status == 0

    refused = at_hub("publish", orders, write(at_hub, given, "other.ndjson"), *GROUP)

    assert refused.status == 1
    assert f"penstock: this is not what 'nightly' has published to '{orders}', partition " in refused.err
    assert reason in refused.err
    assert "Another series of events, or another file, needs a producer group of its own" in refused.err
    assert (" of other.ndjson)" in refused.err) == (reason == "is another")
    assert " stored" not in refused.err.partition("see what is stored")[2]
    assert "Give the same command again" not in refused.err
    assert by_order(stored(at_hub, orders)) == by_order(EVENTS[:2_000])


def test_a_line_that_is_refused_is_named_and_mending_it_goes_on_behind_what_is_stored(
    at_hub: Command, orders: str
) -> None:
    bad = [*EVENTS[:1_200], {"n": 0}, *EVENTS[1_200:1_500]]
    refused = at_hub("publish", orders, write(at_hub, bad), "--batch", 10, *GROUP)
    mended = at_hub("publish", orders, write(at_hub, EVENTS[:1_500]), "--batch", 10, *GROUP)

    assert refused.status == 1
    assert "line 1201 of orders.ndjson: partition key field 'order_id' is missing" in refused.err
    assert "Mend the line, and give the same command again: it goes" in refused.err
    assert mended.status == 0
    assert by_order(stored(at_hub, orders)) == by_order(EVENTS[:1_500])


def test_events_get_ids_and_times_once(at_hub: Command, penstock: Command) -> None:
    assert at_hub("event-type", "create", "billed", "--category", "business").status == 0
    file = write(at_hub, [{"n": n} for n in range(30)])

    assert at_hub("publish", "billed", file, "--batch", 10, *GROUP).status == 0
    again = at_hub("publish", "billed", file, "--batch", 10, *GROUP)

    assert "published 0 events" in again.out
    found = stored(at_hub, "billed")
    assert [event["n"] for event in found] == list(range(30))
    assert len({event["metadata"]["eid"] for event in found}) == 30


def test_a_pipe_can_be_published_again_too(at_hub: Command, orders: str) -> None:
    given = "".join(json.dumps(event) + "\n" for event in EVENTS[:700])

    assert at_hub("publish", orders, *GROUP, given=given).out.startswith("published 700 events")
    assert at_hub("publish", orders, *GROUP, given=given).out.startswith("published 0 events")


def test_two_at_once_store_nothing_twice(at_hub: Command, orders: str) -> None:
    file = write(at_hub, EVENTS[:5_000])
    with (
        at_hub.started("publish", orders, file, "--batch", 20, *GROUP) as one,
        at_hub.started("publish", orders, file, "--batch", 30, *GROUP) as other,
    ):
        said = [each.communicate(timeout=120)[1] for each in (one, other)]
        for each, text in zip((one, other), said, strict=True):
            assert (
                each.returncode == 0 or f"somebody else publishes to '{orders}' as 'nightly' just now".encode() in text
            )

    assert at_hub("publish", orders, file, *GROUP).status == 0
    assert by_order(stored(at_hub, orders)) == by_order(EVENTS[:5_000])


@pytest.mark.parametrize("claimed", ["pinned", "taken over"])
def test_a_group_that_somebody_else_has_claimed_is_not_gone_on_with(
    hub: LiveHub, at_hub: Command, orders: str, claimed: str
) -> None:
    """The numbers of another epoch say nothing of what of the file is stored."""
    file = write(at_hub, EVENTS[:500])
    assert at_hub("publish", orders, file, *GROUP).status == 0
    body = {"pinned": True} if claimed == "pinned" else {"owner_level": 7}
    url = f"{hub.url}/event-types/{orders}/partitions/1/producers/nightly"
    assert httpx2.put(url, json=body).status_code == 200

    refused = at_hub("publish", orders, file, *GROUP)

    assert refused.status == 1
    assert "partition 1: somebody else has claimed epoch" in refused.err
    assert by_order(stored(at_hub, orders)) == by_order(EVENTS[:500])


def test_a_group_is_remembered_until_it_is_forgotten(hub: LiveHub, at_hub: Command, orders: str) -> None:
    file = write(at_hub, EVENTS[:500])
    assert at_hub("publish", orders, file, *GROUP).status == 0
    producers = f"{hub.url}/event-types/{orders}/partitions/1/producers"
    assert [each["expires_at"] for each in httpx2.get(producers).json()["items"]] == [None]
    assert httpx2.delete(f"{producers}/nightly").status_code == 204

    refused = at_hub("publish", orders, file, *GROUP)

    assert (refused.status, "the hub has been told to forget how far it had come" in refused.err) == (1, True)
    assert by_order(stored(at_hub, orders)) == by_order(EVENTS[:500])


@pytest.mark.parametrize("change", [{"key": "b"}, {"headers": {"h": "2"}}, {"headers": {"h": "1", "i": "1"}}], ids=str)
def test_what_accompanies_the_last_event_is_looked_at_too(at_hub: Command, change: dict[str, Any]) -> None:
    assert at_hub("event-type", "create", "beside", "--partitions", 1).status in (0, 1)
    line = {"data": {"n": 1}, "key": "a", "headers": {"h": "1"}}
    group = ("--producer-group", f"of-{min(change)}-{len(str(change))}")
    assert at_hub("publish", "beside", *group, given=json.dumps(line)).status == 0

    same = at_hub("publish", "beside", *group, given=json.dumps(line))
    other = at_hub("publish", "beside", *group, given=json.dumps(line | change))

    assert "1 event of" in same.out and same.out.endswith(" was there\n")
    assert (other.status, "is another (line 1 of standard input)" in other.err) == (1, True)


def test_where_to_begin_is_known_to_the_hub(at_hub: Command, orders: str) -> None:
    refused = at_hub("publish", orders, "--from-line", 3, *GROUP, given="{}")

    assert refused.status == 2
    assert "--from-line" in refused.err


def test_a_group_needs_a_name_that_one_can_have(at_hub: Command, orders: str) -> None:
    refused = at_hub("publish", orders, "--producer-group", "two words", given="{}")

    assert refused.status != 0
    assert "'two words' is not 1 to" in refused.err
