"""A feed that is created again while a processor on Spark holds events of the old one: nothing of the new is theirs."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.client import Client
from penstock.errors import FeedCreatedAgain
from penstock.processing import Backoff, Rules, StreamEvent
from penstock.processing.checkpoints.checkpoint import Request
from penstock.processing.checkpoints.memory import MemoryCheckpoints
from penstock.processing.engine.parked import Place
from penstock.spark.processors.processor import SparkProcessor
from penstock.testing.live_hub import LiveHub
from tests.exhaustive import exhaustive

AT_ONCE = Backoff(first=0.001, most=0.001)
FULL = Rules(events_ahead=5, batches_ahead=1, backoff=AT_ONCE)
"""What fails leaves no room to read more."""
PARKED = Rules(attempts_max=2, exhausted="park", backoff=AT_ONCE)


def publish(client: Client, feed: str, what: str) -> None:
    """Create a feed, and publish five events of one customer."""
    client.create_event_type(feed, partition_count=1, partition_strategy="hash", partition_key_fields=["customer"])
    client.publish(feed, [{"customer": "a", "n": f"{what} {n}"} for n in range(5)])


def failing_at_first(folder: str) -> Callable[[str, Sequence[StreamEvent]], None]:
    """Return a handler that writes down what it is given, and fails until the folder has a file `mended`."""

    def handle(_: str, events: Sequence[StreamEvent]) -> None:
        with (Path(folder) / "given").open("a") as file:
            file.writelines(f"{event.data['n']}\n" for event in events)
        if not (Path(folder) / "mended").exists():
            raise ValueError("not yet")

    return handle


class Retrying(MemoryCheckpoints):
    """Somebody wants all to be tried again that is parked."""

    def requests(self) -> Mapping[Place, Request]:
        """Return what is wanted."""
        return {each.place: "retry" for each in self.parked()}


@pytest.mark.parametrize("rules", [exhaustive(FULL), PARKED], ids=["no room for more", "parked and retried"])
def test_what_is_tried_again_is_not_of_the_new_feed(
    spark: SparkSession, hub: LiveHub, client: Client, tmp_path: Path, rules: Rules
) -> None:
    failed = 1 if rules is FULL else 3
    feed = f"order.placed-{time.monotonic_ns()}"
    publish(client, feed, "old")
    handler, checkpoints = failing_at_first(str(tmp_path)), Retrying()
    processor = SparkProcessor(spark, handler, hub.url, feed, checkpoints=checkpoints, rules=rules, commit_s=0.0)
    given = tmp_path / "given"
    while not given.exists() or len(given.read_text().splitlines()) < 5 * failed:
        processor.step()
    before = checkpoints.positions()

    client.delete_event_type(feed)
    publish(client, feed, "new")
    (tmp_path / "mended").touch()
    with pytest.raises(FeedCreatedAgain, match="in epoch 2, not 1"):
        processor.step()
    processor.close()

    assert set(given.read_text().splitlines()) == {f"old {n}" for n in range(5)}
    assert checkpoints.positions() == before
