from random import Random
from typing import Any

import pytest

from penstock.errors import BadParameter, EventsLost
from penstock.processing.engine.engine import Engine
from penstock.processing.engine.rules import Rules
from penstock.processing.engine.tranche import Batch
from penstock.processing.sources.filtered import Selection
from penstock.spark.connection import RemoteHub
from penstock.spark.heads import Heads
from penstock.spark.processors.rounds import Planned, SpanItem
from penstock.spark.processors.sources.feeds import _FeedLook
from penstock.spark.processors.sources.filtered import _SiftedLook
from penstock.spark.processors.sources.source import Look, TrancheRange
from tests.failing import has_code

TRANCHE = "order.placed/1"
NO_SESSION: Any = None


def look(epoch: int, *nexts: int) -> Look:
    """Return what a feed shows that is in an epoch, and whose partitions have so many events."""
    heads = {"order.placed": Heads(epoch, (0,) * len(nexts), nexts)}
    return _FeedLook(NO_SESSION, RemoteHub("http://localhost:1", 0.0), heads, frozenset(), fail_on_loss=True)


def begin_engine(*, position: str, events: int = 0) -> Engine:
    """Return an engine at a position, which has room for four events, and has taken in some behind it."""
    engine = Engine(Rules(events_ahead=4, batches_ahead=1), Random(0), is_dense=False)
    engine.open(TRANCHE, position)
    if events:
        items = [SpanItem("a", 0, events, events, None)]
        engine.ingest(Batch(TRANCHE, f"1:{events}", items, is_tail=False, size=events), 0.0)
    return engine


@pytest.mark.parametrize("nexts", [(0, 9), (9,)], ids=["as many partitions", "fewer partitions"])
def test_parked_events_of_a_recreated_feed_are_not_read_again(
    nexts: tuple[int, ...],
) -> None:
    engine = begin_engine(position="1:0", events=4)
    engine.open("order.placed/0", "1:0")
    again = engine.take(1, 0.0)

    assert Planned.of(engine, look(1, 0, 9), {}, again).again == [TrancheRange(TRANCHE, 0, 4, 4)]
    with pytest.raises(EventsLost, check=has_code("feed-created-again"), match="it is in epoch 2, not 1"):
        Planned.of(engine, look(2, *nexts), {}, again)
    with pytest.raises(EventsLost, check=has_code("feed-created-again")):
        Planned.of(engine, _SiftedLook(look(2, *nexts), Selection()), {}, again)


def test_position_after_the_end_of_the_feed_is_refused() -> None:
    told = "position is '1:8'; allowed: up to 1:5, where order.placed/1 ends; `penstock groups reset` moves a proc"
    with pytest.raises(BadParameter, match=told):
        Planned.of(begin_engine(position="1:8"), look(1, 0, 5), {}, [])
    assert not Planned.of(begin_engine(position="1:5"), look(1, 0, 5), {}, []).new


def test_positions_of_feeds_no_longer_read_are_not_checked() -> None:
    look(1, 0, 5).check({"order.shipped/0": "7:9", "0": 17})


def test_position_of_another_epoch_is_refused_when_a_stretch_is_planned() -> None:
    assert look(1, 0, 5).stretch(TRANCHE, "1:3", 9) == TrancheRange(TRANCHE, 3, 5, 2, "1:5", is_tail=True)
    with pytest.raises(EventsLost, check=has_code("feed-created-again")):
        look(2, 0, 5).stretch(TRANCHE, "1:3", 9)
