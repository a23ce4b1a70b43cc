"""Streams that a processor parks at the hub: others go on, and a retry has its events handled in order."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client
from penstock.processing import FeedSource, HubCheckpoints, LocalProcessor, Rules
from penstock.processing.checkpoints import HubLeases
from penstock.processing.engine import Backoff
from penstock.testing.live_hub import LiveHub, live_hub
from tests.processing.office import until

TWICE = Rules(attempts_max=2, exhausted="park", backoff=Backoff(first_seconds=0.001))


@pytest.fixture(params=["sqlite", "postgres"])
def hub(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LiveHub]:
    url = f"sqlite:///{tmp_path}/hub.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with live_hub(url) as hub, Client(hub.url) as client:
        client.create_event_type(
            "order.placed", partition_count=2, partition_strategy="hash", partition_key_fields=["customer"]
        )
        yield hub


def publish(hub: LiveHub, *events: tuple[str, int]) -> None:
    with Client(hub.url) as client:
        client.publish("order.placed", [{"customer": customer, "n": n} for customer, n in events])


def test_poison_key_waits_at_the_hub_while_others_go_on_until_it_is_retried(hub: LiveHub) -> None:
    done, is_mended = list[tuple[str, int]](), False

    def handle(stream: str, events: Sequence[Any]) -> None:
        if stream == "order.placed-ada" and not is_mended:
            raise ValueError("no such customer")
        done.extend((stream.removeprefix("order.placed-"), event.data["n"]) for event in events)

    def mailer() -> LocalProcessor:
        checkpoints, source = HubCheckpoints(hub.url, "mailer"), FeedSource(hub.url, "order.placed")
        return LocalProcessor(handle, source, checkpoints=checkpoints, rules=TWICE, commit_interval=0.05)

    publish(hub, ("ada", 1), ("bob", 2), ("ada", 3))
    with mailer() as running, Client(hub.url) as client:
        running.wait_until_caught_up(300)
        [parked] = client.parked_streams("mailer")
        assert (parked.stream, parked.events, parked.attempts, parked.tag) == ("order.placed-ada", 2, 2, "ValueError")
        assert done == [("bob", 2)]
    publish(hub, ("ada", 4), ("bob", 5))
    with mailer() as running, Client(hub.url) as client:
        running.wait_until_caught_up(300)
        assert (done, client.parked_streams("mailer")[0].events) == ([("bob", 2), ("bob", 5)], 3)
        client.retry_parked_stream("mailer", parked.id)
        until(lambda: [each.attempts for each in client.parked_streams("mailer")] == [4])
        assert [each.request for each in client.parked_streams("mailer")] == [None], "it was tried in vain"
        is_mended = True
        client.retry_parked_stream("mailer")
        until(lambda: not client.parked_streams("mailer"))
        running.wait_until_caught_up(300)
    assert [n for customer, n in done if customer == "ada"] == [1, 3, 4]


def test_parked_key_is_retried_by_whoever_has_its_partition_by_now(hub: LiveHub) -> None:
    done, is_mended = list[tuple[str, int]](), False

    def handle(stream: str, events: Sequence[Any]) -> None:
        if stream == "order.placed-ada" and not is_mended:
            raise ValueError("no such customer")
        done.extend((stream.removeprefix("order.placed-"), event.data["n"]) for event in events)

    def mailer() -> LocalProcessor:
        return LocalProcessor(
            handle,
            FeedSource(hub.url, "order.placed"),
            checkpoints=HubCheckpoints(hub.url, "mailer"),
            leases=HubLeases(hub.url, "mailer", lease_seconds=4.0),
            rules=TWICE,
            commit_interval=0.05,
        ).start()

    publish(hub, ("ada", 1), ("bob", 2), ("ada", 3))
    with Client(hub.url) as client:
        first = mailer()
        until(lambda: done == [("bob", 2)] and [each.events for each in client.parked_streams("mailer")] == [2])
        second = mailer()
        until(lambda: len(client.consumer_group("mailer").members) == 2)
        first.stop()
        until(lambda: [len(each.tranches) for each in client.consumer_group("mailer").members] == [2])
        is_mended = True
        client.retry_parked_stream("mailer")
        until(lambda: not client.parked_streams("mailer"))
        publish(hub, ("ada", 4))
        second.wait_until_caught_up(300)
        second.stop()
        assert client.consumer_group("mailer").members == []
    assert [n for customer, n in done if customer == "ada"] == [1, 3, 4]


def test_skipped_key_is_passed_over_and_its_later_events_are_handled(hub: LiveHub) -> None:
    done = list[int]()

    def handle(_: str, events: Sequence[Any]) -> None:
        for event in events:
            if event.data["n"] == 1:
                raise ValueError("no")
            done.append(event.data["n"])

    publish(hub, ("ada", 1), ("ada", 2))
    checkpoints, source = HubCheckpoints(hub.url, "mailer"), FeedSource(hub.url, "order.placed")
    with (
        LocalProcessor(handle, source, checkpoints=checkpoints, rules=TWICE, commit_interval=0.05) as running,
        Client(hub.url) as client,
    ):
        until(lambda: client.parked_streams("mailer") if checkpoints.positions() else False)
        [parked] = client.parked_streams("mailer")
        client.skip_parked_stream("mailer", parked.id, "a test order")
        until(lambda: not client.parked_streams("mailer"))
        publish(hub, ("ada", 3))
        running.wait_until_caught_up(300)
        assert done == [3]
        [skipped] = client.group_history("mailer")
        assert (skipped.kind, skipped.reason) == ("skipped", "a test order (stream order.placed-ada)")


def test_streams_of_any_name_and_reason_are_parked_at_the_hub(hub: LiveHub) -> None:
    checkpoints = HubCheckpoints(hub.url, "mailer")
    publish(hub, ("a b", 1), ("back\\slash", 2), ("🚚" * 100, 3))

    def handle(_: str, __: Sequence[Any]) -> None:
        raise ValueError("é\0" * 50_000)

    source = FeedSource(hub.url, "order.placed")
    with LocalProcessor(handle, source, checkpoints=checkpoints, rules=TWICE) as running:
        running.wait_until_caught_up(300)
    names = {each.stream.removeprefix("order.placed-") for each in HubCheckpoints(hub.url, "mailer").parked()}
    assert names == {"a b", "back\\slash", "🚚" * 100}
