from pathlib import Path

import pytest

from penstock.errors import MalformedAnswer
from penstock.spark.landing import Landing
from penstock.spark.nakadi.cursors import Place
from penstock.spark.nakadi.landed import Landed
from penstock.spark.nakadi.micro_batch import MicroBatch
from penstock.spark.nakadi.pages import Pages
from penstock.wire.subscriptions import BATCHES
from tests.unit.spark.nakadi.serving import line, offset

A = Place("a.b", "0")
START = Landed("s", "l", "before", 3, {A: offset(4)})


@pytest.fixture
def batch(tmp_path: Path) -> MicroBatch:
    return MicroBatch(START, "r", Pages(Landing(str(tmp_path), "l"), "r", 0), "http://nakadi")


def test_micro_batch_without_events_ends_at_its_start(batch: MicroBatch) -> None:
    batch.see(A, offset(9))

    assert batch.stands(A) == offset(9)
    assert batch.end() is START


def test_micro_batch_with_events_ends_after_its_pages_and_all_cursors_seen(batch: MicroBatch) -> None:
    batch.add(BATCHES.decode(line(6, 2)))
    batch.see(A, offset(6))
    batch.see(Place("a.b", "1"), offset(-1))

    assert batch.events == 2
    assert batch.end() == Landed("s", "l", "r", 1, {A: offset(6), Place("a.b", "1"): offset(-1)})


@pytest.mark.parametrize("event", [b"[1]", b'"\xff"', b"3"])
def test_event_that_is_not_an_object_is_a_malformed_answer(batch: MicroBatch, event: bytes) -> None:
    found = BATCHES.decode(line(0, 1).replace(b'{"n": 0}', event))

    with pytest.raises(MalformedAnswer, match="an event is no JSON object"):
        batch.add(found)
