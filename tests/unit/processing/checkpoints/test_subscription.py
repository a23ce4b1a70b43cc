"""A subscription's cursors are committed where nothing is parked, before the hub parks what is."""

from typing import Any

import pytest

from penstock.processing.checkpoints import Advance, Parked, PositionMove, SubscriptionCheckpoints
from penstock.processing.sources import SubscriptionSource


def test_cursor_of_a_partition_with_a_parked_stream_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(SubscriptionSource, "commit", lambda _, positions: calls.append(positions))
    monkeypatch.setattr(SubscriptionSource, "park", lambda _, parked: calls.append(parked))
    checkpoints = SubscriptionCheckpoints(SubscriptionSource("http://localhost:1", "s"))
    moves = {"a/0": PositionMove("1:0#0", "1:9#1"), "a/1": PositionMove("1:0#0", "1:5#1")}
    stream = Parked("a-x", "a/1", 3, 5, 2, 1, "ValueError", "no", "1:0#0")

    checkpoints.commit(Advance(moves, {stream.place: stream}))
    checkpoints.commit(Advance(moves, {stream.place: None}))

    assert calls == [{"a/0": "1:9#1"}, [stream], {"a/0": "1:9#1", "a/1": "1:5#1"}]
