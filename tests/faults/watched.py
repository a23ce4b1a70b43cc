"""Consumers of one subscription, hubs and publishers run and are killed; then their logs are checked."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.exhaustive import examples
from tests.faults.consumed import (
    lost_offsets,
    overlapping_batches,
    repeated_batches,
    skipping_batches,
    story_of,
    unordered_batches,
)
from tests.faults.consumers import Consumers, Publishing, disturb, heads_of, hubs_on, subscribe, unconsumed_events

DRAIN_SECONDS_MAX: Final = 300.0
CONSUMERS: Final = examples(3, 4)
EVENTS_A_SECOND: Final = examples(100, 400)


def play(
    url: str, hubs_count: int, folder: Path, chance: random.Random, seconds: float, *, pauses: bool = False
) -> None:
    """Run and disturb them for so long, wait until everything is committed, and check the logs."""
    with hubs_on(url, hubs_count, folder) as hubs:
        urls = [hub.url for hub in hubs]
        subscription = subscribe(urls[0])
        consumers = Consumers(subscription, folder, chance, urls)
        try:
            for _ in range(CONSUMERS):
                consumers.begin()
            publishing = Publishing(urls, EVENTS_A_SECOND)
            publishing.begin()
            done = disturb(hubs, consumers, chance, seconds, pauses=pauses)
            _until(lambda: publishing.published > 0, "events are published")
            _until(lambda: story_of(consumers.logs).counts["opened"] > CONSUMERS, "others have opened streams")
            publishing.end()
            _until(lambda: unconsumed_events(urls[0], subscription) == 0, "all events are committed")
        finally:
            consumers.kill_all()
        heads = heads_of(urls[0])
    story = story_of(consumers.logs)
    assert lost_offsets(story, heads) == {}
    assert skipping_batches(story) == []
    story = story.without_leftovers(done.resumed)
    assert repeated_batches(story) == []
    assert unordered_batches(story) == []
    assert overlapping_batches(story) == []
    assert sum(heads.values()) >= publishing.published
    assert all(done.counts.values())
    told = f"{sum(heads.values())} events, {len(story.commits)} commits, {done.counts}, {dict(story.counts)}"
    print(told)  # noqa: T201 - shown by pytest, with -s


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DRAIN_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f"after {DRAIN_SECONDS_MAX:g} s it does not hold that {what}"
        time.sleep(0.2)
