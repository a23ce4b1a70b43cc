"""The hub is killed again and again: every acknowledged event is there once, and readers see one history."""

import contextlib
import http.client
import json
import threading
from collections import Counter
from contextlib import closing
from operator import gt
from random import Random
from typing import Any, NamedTuple

import pytest

from penstock.testing.live_hub import LiveHub, live_hub
from tests.exhaustive import exhaustive
from tests.promises.scene import Remote, assert_dense, seeded, until

PUBLISHERS, PARTITIONS = 4, 2


@pytest.mark.parametrize("kills", [3, exhaustive(200)])
def test_every_acknowledged_event_is_there_once_after_kills_of_the_hub(url: str, kills: int) -> None:
    chance = seeded()
    acknowledged: list[tuple[int, int]] = []
    signals = Signals(threading.Event(), threading.Event())
    signals.up.set()
    with live_hub(url) as hub:
        with closing(Remote(hub.port)) as remote:
            remote.create(PARTITIONS)
        publishers = [
            threading.Thread(target=_publish, args=(hub, who, Random(chance.getrandbits(32)), acknowledged, signals))
            for who in range(PUBLISHERS)
        ]
        histories: list[list[Any]] = [[] for _ in range(PARTITIONS)]
        readers = [threading.Thread(target=_follow, args=(hub, p, histories[p], signals)) for p in range(PARTITIONS)]
        for thread in (*publishers, *readers):
            thread.start()
        try:
            for _ in range(kills):
                enough, before = len(acknowledged) + chance.randint(1, 40), list(map(len, histories))
                until(lambda enough=enough: len(acknowledged) >= enough, "publishers are served again")
                until(lambda before=before: all(map(gt, map(len, histories), before)), "readers are served again")
                hub.kill()
                signals.up.clear()
                hub.start()
                signals.up.set()
        finally:
            signals.stop.set()
            signals.up.set()
            for thread in (*publishers, *readers):
                thread.join()
        with closing(Remote(hub.port)) as remote:
            whole = [remote.all(partition, PARTITIONS) for partition in range(PARTITIONS)]

    _assert_one_history(whole, histories, acknowledged)
    assert_dense(url)


def _assert_one_history(
    whole: list[list[Any]], histories: list[list[Any]], acknowledged: list[tuple[int, int]]
) -> None:
    found = [(each["by"], each["batch"], each["i"]) for events in whole for each in events]
    assert len(found) == len(set(found)), "an event is there twice"
    batches = {(by, batch) for by, batch, _ in found}
    assert set(acknowledged) <= batches, "an acknowledged event is lost"
    sizes = {(each["by"], each["batch"]): each["of"] for events in whole for each in events}
    assert Counter((by, batch) for by, batch, _ in found) == sizes, "a publish is there in part"
    for events, history in zip(whole, histories, strict=True):
        assert history, "a reader saw nothing"
        assert events[: len(history)] == history, "a reader saw another history"
        for who in range(PUBLISHERS):
            own = [(each["batch"], each["i"]) for each in events if each["by"] == who]
            assert own == sorted(own)


class Signals(NamedTuple):
    """Signals to the threads."""

    stop: threading.Event
    up: threading.Event
    """Set while the hub can be asked."""


def _publish(hub: LiveHub, who: int, chance: Random, acknowledged: list[tuple[int, int]], signals: Signals) -> None:
    """Publish batches, each once, whether it is answered or not."""
    batch = 0
    with closing(Remote(hub.port)) as remote:
        while signals.up.wait() and not signals.stop.is_set():
            size = chance.randint(1, 5)
            given = [{"by": who, "batch": batch, "i": i, "of": size} for i in range(size)]
            lines = [json.dumps({"data": each, "partition": chance.randrange(PARTITIONS)}) for each in given]
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, _, _ = remote.ask("POST", remote.path, "\n".join(lines).encode())
                if status == 200:
                    acknowledged.append((who, batch))
            batch += 1


def _follow(hub: LiveHub, partition: int, history: list[Any], signals: Signals) -> None:
    cursor = "_first"
    with closing(Remote(hub.port)) as remote:
        while signals.up.wait() and not signals.stop.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                found, cursor = remote.page(cursor, partition, PARTITIONS, 50)
                history += found
