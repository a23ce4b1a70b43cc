import time
from dataclasses import FrozenInstanceError
from threading import Event

import pytest

from penstock.processing.engine.item import Batch
from penstock.processing.engine.outcome import Failure, done, retry
from penstock.processing.snapshot import LONGEST_MAX
from penstock.processing.stream_event import StreamEvent
from tests.unit.processing.engine.items import batch, engine, things
from tests.unit.processing.watched import Watched


def test_it_stays_as_it_was_while_the_engine_goes_on() -> None:
    watched = Watched("mailer", engine())
    watched.engine.ingest(batch(5, things("A0E0", "B0E1", "C0E2")), 0.0)
    failing, stalling, _ = watched.engine.take(3, 1.0)
    watched.engine.settle(failing, Failure("ValueError", "broken"), 2.0, 1.0)
    watched.engine.settle(stalling, retry(60), 2.0, 1.0)
    watched.now = 11.0
    before = watched.snapshot

    [call] = watched.engine.take(1, 100.0)
    watched.engine.settle(call, done(mails=1), 100.0, 1.0)

    assert (before.handled, dict(before.counts), before.events_ahead) == (0, {}, 3)
    assert {state: (each.streams, each.oldest_s) for state, each in before.busy.items()} == {
        "active": (1, 10.0), "failing": (1, 10.0), "stalled": (1, 10.0),
    }  # fmt: skip
    assert [(each.stream, each.state, each.index, each.detail) for each in before.longest] == [
        ("B0", "stalled", 1, None), ("A0", "failing", 0, "broken"), ("C0", "active", 2, None),
    ]  # fmt: skip
    assert (before.took["ValueError"].count, watched.snapshot.took["ok"].count) == (1, 2)
    assert watched.snapshot.counts == {"mails": 1}
    with pytest.raises(FrozenInstanceError):
        before.handled = 7  # type: ignore[misc]


def test_ages_grow_though_nobody_looks() -> None:
    watched = Watched("mailer", engine())
    watched.engine.ingest(batch(1, things("A0E0")), 0.0)
    watched.engine.take(1, 0.0)
    taken = watched.snapshot
    Event().wait(0.02)

    assert taken.busy["active"].oldest_s == 0.0
    assert taken.busy_now()["active"].oldest_s >= 0.02
    assert taken.busy_now()["failing"].oldest_s == 0.0, "of nobody there is no age"


def test_the_lag_is_the_age_of_the_oldest_event_that_is_not_done() -> None:
    watched, now = Watched("mailer", engine()), time.time()
    assert watched.snapshot.lag_s() is None, "nothing was read yet"
    page = Batch("t", 1, [StreamEvent("A", 0, "event", b"{}", received=int((now - 90) * 1e6))], is_tail=True)
    watched.engine.ingest(page, 0.0)
    watched.tally.read(page)

    assert watched.snapshot.lag_s() == pytest.approx(90, abs=5)
    [call] = watched.engine.take(1, 0.0)
    watched.engine.settle(call, done(), 0.0, 0.0)
    assert watched.snapshot.lag_s() == 0.0


def test_of_very_many_streams_in_trouble_some_are_named_and_all_are_counted() -> None:
    watched = Watched("mailer", engine(concurrency=100))
    watched.engine.ingest(batch(50, things(*(f"S{number}E{number}" for number in range(50)))), 0.0)
    for call in watched.engine.take(50, 0.0):
        watched.engine.settle(call, Failure("ValueError", "broken"), 0.0, 0.0)

    assert [each.stream for each in watched.snapshot.longest] == [f"S{number}" for number in range(LONGEST_MAX)]
    assert watched.snapshot.busy["failing"].streams == 50


def test_who_fails_longest_comes_first_though_it_has_stalled_meanwhile() -> None:
    watched, broken = Watched("mailer", engine()), Failure("ValueError", "broken")
    watched.engine.ingest(batch(2, things("A0E0", "B0E1")), 0.0)
    for now in (1.0, 1.5):
        [call] = watched.engine.take(1, now)
        watched.engine.settle(call, broken, now, 0.0)
    for now, result in ((100.0, retry(0)), (200.0, broken)):
        first, second = sorted(watched.engine.take(2, now), key=lambda call: call.stream)
        watched.engine.settle(first, result, now, 0.0)
        watched.engine.give_back(second)

    assert [each.stream for each in watched.snapshot.longest if each.state == "failing"] == ["A0", "B0"]
