"""What `sync` copies to another feed is there once and in order, whatever fails, and whoever is killed."""

import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client import FIRST, Client
from penstock.errors import PenstockError, ProducerFenced
from penstock.processing import (
    Duplicate,
    FeedSource,
    HubTarget,
    Inline,
    MemorySource,
    Partial,
    PrefixMissing,
    Rules,
    StreamEvent,
    Written,
    sync,
)
from penstock.processing.targets import origins
from penstock.processing.targets.deliveries import Delivery
from penstock.testing.live_hub import LiveHub
from tests.docs.examples import ROOT
from tests.faults.proxy import Line, unanswered

CUSTOMERS = 10


@pytest.fixture
def client(hub: LiveHub) -> Iterator[Client]:
    with Client(hub.url) as client:
        for name in ("order.placed", "order.copied"):
            client.create_event_type(
                name, partition_count=2, partition_strategy="hash", partition_key_fields=["customer"]
            )
        yield client


def span(stream: str, *indices: int) -> list[StreamEvent]:
    return [StreamEvent(stream, at, "order.placed", b'{"n":%d}' % at, key="7", _headers='{"a":"b"}') for at in indices]


def copied(client: Client, name: str = "order.copied") -> dict[str, list[int]]:
    """Return the numbers that a feed holds, by the streams of their origins, in its order."""
    found: dict[str, list[int]] = defaultdict(list)
    with client.feed(name) as feed:
        for partition in feed.cursors():
            cursor = FIRST
            while (page := feed.read({partition: cursor}, headers=["penstock-stream"])).events:
                cursor = page.cursors[partition]
                for event in page.events:
                    found[event.headers["penstock-stream"]].append(event.data["n"])
    return found


def publish(client: Client, numbers: range) -> None:
    client.publish("order.placed", [{"customer": f"{number % CUSTOMERS}", "n": number} for number in numbers])


def wanted(numbers: range) -> dict[str, list[int]]:
    return {f"order.placed-{key}": [n for n in numbers if n % CUSTOMERS == key] for key in range(CUSTOMERS)}


def test_it_says_how_far_a_stream_has_come(client: Client) -> None:
    target = HubTarget(client, "order.copied", "copier")
    assert target.append("S", None, span("S", 3, 5)) == Written(6)
    assert target.append("S", None, span("S", 3, 5)) == Duplicate(6)
    assert target.append("S", None, span("S", 5, 8, 9)) == Partial(10, 2)

    again = HubTarget(client, "order.copied", "copier")
    assert again.append("S", None, span("S", 3, 5, 8, 9)) == Duplicate(10), "it is read back"
    assert again.append("T", None, span("T", 0)) == Written(1)
    assert copied(client) == {"S": [3, 5, 8, 9], "T": [0]}
    with pytest.raises(ProducerFenced):
        target.append("S", None, span("S", 11))


def test_events_have_their_key_and_headers_and_their_origin(client: Client) -> None:
    HubTarget(client, "order.copied", "copier").append("S", None, span("S", 3))
    found: list[Any] = []
    with FeedSource(client.parts()[0].url, "order.copied") as source:
        Inline(lambda _, events: found.extend(events), source).drain()
    [event] = found
    assert (event.stream, event.raw) == ("order.copied-7", b'{"n":3}')
    assert event.headers == {
        "a": "b", "penstock-stream": "S", "penstock-index": "3", "penstock-group": "copier",
    }  # fmt: skip


def test_of_dense_streams_it_is_told_what_is_missing(client: Client) -> None:
    target = HubTarget(client, "order.copied", "copier")
    assert target.append("S", 1, span("S", 1, 2)) == PrefixMissing(0)
    assert target.append("S", 0, span("S", 0, 1, 3)) == Partial(2, 2)
    assert target.append("S", 3, span("S", 3)) == PrefixMissing(2)
    assert target.append("S", 1, span("S", 1, 2, 3)) == Partial(4, 2)
    assert copied(client) == {"S": [0, 1, 2, 3]}


def test_a_stream_whose_beginning_is_missing_waits_for_it(client: Client) -> None:
    source = MemorySource()
    handler = sync(HubTarget(client, "order.copied", "copier"), dense=True)
    processor = Inline(handler, source)
    late = span("S", 2, 3)
    source.deliver(late)
    processor.drain()
    assert copied(client) == {}
    source.deliver(span("S", 0, 1))
    processor.drain()
    processor.advance(60)
    processor.drain()
    assert copied(client) == {"S": [0, 1, 2, 3]}


def test_a_feed_is_copied_and_copied_again_without_effect(client: Client, hub: LiveHub) -> None:
    publish(client, range(200))
    for _ in range(2):
        with FeedSource(hub.url, "order.placed") as source:
            Inline(
                sync(HubTarget(client, "order.copied", "copier"), dense=False), source, rules=Rules(events_per_call=7)
            ).drain()
        assert copied(client) == wanted(range(200))


def test_what_is_refused_of_one_stream_keeps_no_other_back(client: Client) -> None:
    target = origins.Origins(client, "order.copied", "copier")
    copier = HubTarget(client, "order.copied", "copier")
    copier._origins = target
    good, bad = span("S", 0), [StreamEvent("T", 0, "k", b"no JSON", key="7")]
    deliveries = [
        Delivery((events[0].stream, ""), None, [copier._entry(events[0].stream, event) for event in events])
        for events in (good, bad, span("U", 0))
    ]
    [first, second], [third] = target._publish(1, [deliveries[:2], deliveries[2:]])
    assert (first, third) == (Written(1), Written(1))
    assert isinstance(second, PenstockError)
    assert copied(client) == {"S": [0], "U": [0]}


def test_an_unknown_outcome_is_found_out(client: Client, hub: LiveHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "DELIVERY_S", 0.4)
    with Line(hub.port) as line, Client(line.url) as through:
        target = HubTarget(through, "order.copied", "copier")
        assert target.append("S", None, span("S", 0, 1)) == Written(2)
        line.does(*[unanswered] * 100)
        with pytest.raises(PenstockError):
            target.append("S", None, span("S", 2, 3))
        assert line.left < 100
        line._fates.clear()
        assert target.append("S", None, span("S", 2, 3, 4)) == Partial(5, 1)
    assert copied(client) == {"S": [0, 1, 2, 3, 4]}


def test_a_copier_that_is_killed_has_copied_each_event_once(client: Client, hub: LiveHub, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)  # noqa: T201 - shown when the test fails
    chance = random.Random(seed)
    count = 0
    arguments = [hub.url, "order.placed", "order.copied", f"sqlite:///{tmp_path}/checkpoints.db"]
    command = [sys.executable, "-m", "tests.processing.copying", *arguments]
    for kill in (True, True, True, False):
        publish(client, range(count, count + 1_500))
        count += 1_500
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "copying\n"
            wait_for(client, count if not kill else count - chance.randrange(100, 1_500))
            if kill:
                process.send_signal(signal.SIGKILL)
            else:
                process.communicate("x", timeout=30)
    assert copied(client) == wanted(range(count))


def wait_for(client: Client, events: int) -> None:
    """Wait until so many events are copied."""
    with client.feed("order.copied") as feed:
        cursors, left = feed.cursors(), events
        while left > 0:
            page = feed.read(cursors, wait=10)
            cursors |= page.cursors
            left -= len(page.events)
