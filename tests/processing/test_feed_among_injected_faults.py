"""Each stream of a hub's feed is handled in order among faults of the feed, the handler and the checkpoints."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Client
from penstock.processing import DatabaseCheckpoints, FeedSource, HubCheckpoints, LocalProcessor, Rules
from penstock.processing.checkpoints import Checkpoints, MemoryCheckpoints
from penstock.processing.engine import Backoff
from penstock.testing.live_hub import LiveHub, live_hub
from penstock.testing.processing import (
    FaultyCheckpoints,
    FaultyHandler,
    FaultySource,
    VirtualInline,
    Witness,
    await_caught_up,
    by_chance,
)
from tests.exhaustive import exhaustive

RULES = Rules(
    backoff=Backoff(first_seconds=0.001, max_seconds=0.01), events_ahead=200, batches_ahead=4, events_per_call=7
)
CUSTOMERS = 13
EVENTS = 600


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    with live_hub(f"sqlite:///{tmp_path_factory.mktemp('hub')}/hub.db") as hub, Client(hub.url) as client:
        client.create_event_type(
            "order.placed", partition_count=3, partition_strategy="hash", partition_key_fields=["customer"]
        )
        client.publish("order.placed", [{"customer": f"{n % CUSTOMERS}", "n": n} for n in range(EVENTS)])
        yield hub


@pytest.fixture(params=["hub", "database", "memory"])
def kept(request: pytest.FixtureRequest, hub: LiveHub, tmp_path: Path) -> Checkpoints:
    made: dict[str, Any] = {
        "hub": lambda: HubCheckpoints(hub.url, f"group-{abs(hash(request.node.nodeid))}"),
        "database": lambda: DatabaseCheckpoints(f"sqlite:///{tmp_path}/consumer.db", "group"),
        "memory": MemoryCheckpoints,
    }
    found: Checkpoints = made[request.param]()
    return found


@pytest.mark.parametrize("seed", [0, exhaustive(1), exhaustive(2)])
@pytest.mark.parametrize("runner", ["inline", "local"])
def test_each_stream_is_handled_in_order_among_faults_of_source_handler_and_checkpoints(
    hub: LiveHub, kept: Checkpoints, runner: str, seed: int
) -> None:
    some, few = by_chance(0.3, seed), by_chance(0.1, seed + 10)
    witness = Witness()
    for _ in range(2):  # The second has nothing left to do.
        handler = FaultyHandler(FaultyHandler(witness, some, has_effect=True), few)
        checkpoints = FaultyCheckpoints(kept, fails=some, loses=few)
        with FeedSource(hub.url, "order.placed") as feed:
            source = FaultySource(feed, fails=some, repeats=some, mixes=some, seed=seed)
            if runner == "inline":
                VirtualInline(handler, source, checkpoints=checkpoints, rules=RULES, seed=seed).drain(advance=True)
            else:
                with LocalProcessor(
                    handler, source, checkpoints=checkpoints, rules=RULES, commit_interval=0.01
                ) as running:
                    await_caught_up(running)

    with FeedSource(hub.url, "order.placed") as feed:
        witness.assert_handled_all(feed)
        assert {*feed.behind(kept.positions()).values()} == {0}
    handled = {stream: [event.data["n"] for event in events] for stream, events in witness.handled.items()}
    assert handled == {f"order.placed-{key}": [*range(key, EVENTS, CUSTOMERS)] for key in range(CUSTOMERS)}
