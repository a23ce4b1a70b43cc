"""Figures of a processor: its tally, the answers of its source, and snapshots of its streams."""

import time
from dataclasses import FrozenInstanceError
from threading import Event

import pytest

from penstock.processing.engine.tranche import Batch
from penstock.processing.outcomes import Failure, done, done_to, retry
from penstock.processing.snapshot import LONGEST_MAX, Category, SourceAnswer, SourceWatch, Tally, group_by_category
from penstock.processing.stream_event import StreamEvent
from tests.unit.processing.engine.items import batch, engine, things
from tests.unit.processing.watched import Watched


def event(stream: str, index: int, received: int | None) -> StreamEvent:
    return StreamEvent(stream, index, "event", b"{}", received=received)


def test_oldest_event_is_that_of_the_oldest_unfinished_page() -> None:
    ours, tally = engine(), Tally()
    for number, received in enumerate((100, None, 300)):
        page = Batch("t", number, [event(f"S{number}", number, received)])
        ours.ingest(page, 0.0)
        tally.note_batch(page)
    oldest = [tally.find_oldest(ours.tranche("t"))]
    for call in ours.take(3, 0.0):
        ours.settle(call, done(), 0.0, 0.0)
        oldest.append(tally.find_oldest(ours.tranche("t")))

    assert oldest == [100, 300, 300, None]


def test_completed_pages_complete_their_events() -> None:
    ours, tally = engine(), Tally()
    for number in range(2):
        page = Batch("t", number, [event("A", number, None)], size=3, bytes=100)
        ours.ingest(page, 0.0)
        tally.note_batch(page, took=0.5)
        tally.follow(ours.tranche("t"))
    assert (tally.pages["t"], tally.events["t"], tally.bytes["t"], tally.completed["t"]) == (2, 6, 200, 0)
    assert tally.ingests.histogram().sum == 1.0

    [call] = ours.take(1, 0.0)
    ours.settle(call, done_to(1), 0.0, 0.0)
    tally.follow(ours.tranche("t"))
    assert tally.completed["t"] == 3


def test_released_tranche_completes_nothing() -> None:
    ours, tally = engine(), Tally()
    page = Batch("t", 1, [event("A", 0, 100)])
    ours.ingest(page, 0.0)
    tally.note_batch(page)
    assert tally.find_oldest(ours.tranche("t")) == 100
    ours.forget("t")
    ours.open("t", 0)

    assert tally.find_oldest(ours.tranche("t")) is None
    ours.ingest(page, 0.0)
    tally.note_batch(page)
    assert tally.find_oldest(ours.tranche("t")) == 100
    [call] = ours.take(1, 0.0)
    ours.settle(call, done(), 0.0, 0.0)
    tally.follow(ours.tranche("t"))
    assert (tally.events["t"], tally.completed["t"]) == (2, 1)


def watch(
    *, counts: dict[str, int | None], now: float = 10.0, is_wanted: bool = True, fails: bool = False
) -> SourceWatch:
    """Return what has begun at 0 and was told something later."""
    found = SourceWatch()
    found.begin(0.0)
    if fails:
        found.note_failed_read()
    found.note_counts(SourceAnswer(counts, {"0": 100}), now, is_wanted=is_wanted)
    return found


@pytest.mark.parametrize(
    ("ahead", "completed", "gap"),
    [(0, 100, 50), (30, 120, 30), (0, 150, 0), (20, 190, 20), (60, 100, 60)],
)
def test_gap_keeps_the_last_known_head_while_events_are_done(ahead: int, completed: int, gap: int) -> None:
    assert watch(counts={"0": 50}).count_gap("0", ahead, completed) == gap


def test_gap_is_unknown_where_the_source_does_not_say() -> None:
    assert watch(counts={"0": None}).count_gap("0", 3, 0) is None
    assert SourceWatch().count_gap("0", 3, 0) is None


@pytest.mark.parametrize(
    ("given", "unanswered_seconds"),
    [
        ({"counts": {"0": 7}}, 10.0),
        ({"counts": {"0": 0, "1": None}}, 10.0),
        ({"counts": {}}, 10.0),
        ({"counts": {"0": None}, "is_wanted": False}, 10.0),
        ({"counts": {"0": None}}, 20.0),
        ({"counts": {"0": 7}, "fails": True}, 20.0),
    ],
    ids=["a count", "a count of some", "no tranche", "nothing wanted", "no count", "reads fail"],
)
def test_source_that_is_asked_has_answered_unless_it_cannot_be_read(given: dict, unanswered_seconds: float) -> None:  # type: ignore[type-arg]
    assert watch(**given).unanswered_seconds(20.0) == unanswered_seconds


def test_batch_is_an_answer_and_an_empty_read_is_none() -> None:
    found = watch(counts={"0": 7}, fails=True)
    found.note_read(12.0, is_answer=False)
    assert found.unanswered_seconds(20.0) == 20.0
    found.note_read(15.0, is_answer=True)
    assert found.unanswered_seconds(20.0) == 5.0


def test_events_that_are_not_read_age_until_their_tranche_makes_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    found, times = SourceWatch(), iter([1.0, 2.0, 3.0])
    monkeypatch.setattr("penstock.processing.snapshot.time.time", lambda: next(times))
    assert found.find_unread_since("0", 5, 0, 0) is None
    assert found.find_unread_since("0", 5, 4, 4) is None, "all of them are read"
    assert [found.find_unread_since("0", 5, gap, 0) for gap in (4, 4, 9)] == [1.0, 1.0, 1.0]
    assert found.find_unread_since("0", 7, 9, 0) == 2.0, "more was read"
    assert [found.find_unread_since("0", 7, gap, 0) for gap in (8, 8)] == [3.0, 3.0]


def test_tranches_of_an_event_type_are_one_category_and_others_none() -> None:
    ingested = {"order.placed/0": 3, "order.placed/11": 4, "order/late/2": 5, "0": 6, "in/2026.ndjson": 7}
    completed = {"order.placed/0": 3, "order.placed/11": 1, "0": 6}

    found = group_by_category(ingested, completed)

    assert found == {"order.placed": Category(7, 4), "order/late": Category(5, 0)}


def test_snapshot_stays_the_same_while_the_engine_goes_on() -> None:
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
    assert {state: (each.streams, each.oldest_seconds) for state, each in before.busy.items()} == {
        "active": (1, 10.0), "failing": (1, 10.0), "stalled": (1, 10.0),
    }  # fmt: skip
    assert [(each.stream, each.state, each.index, each.detail) for each in before.longest] == [
        ("B0", "stalled", 1, None), ("A0", "failing", 0, "broken"), ("C0", "active", 2, None),
    ]  # fmt: skip
    assert (before.took["ValueError"].count, watched.snapshot.took["ok"].count) == (1, 2)
    assert watched.snapshot.counts == {"mails": 1}
    with pytest.raises(FrozenInstanceError):
        before.handled = 7  # type: ignore[misc]


def test_ages_grow_without_a_look() -> None:
    watched = Watched("mailer", engine())
    watched.engine.ingest(batch(1, things("A0E0")), 0.0)
    watched.engine.take(1, 0.0)
    taken = watched.snapshot
    Event().wait(0.02)

    assert taken.busy["active"].oldest_seconds == 0.0
    assert taken.busy_now()["active"].oldest_seconds >= 0.02
    assert taken.busy_now()["failing"].oldest_seconds == 0.0, "of nobody there is no age"


def test_lag_is_the_age_of_the_oldest_unfinished_event() -> None:
    watched, now = Watched("mailer", engine()), time.time()
    assert watched.snapshot.lag_seconds() is None, "nothing was read yet"
    page = Batch("t", 1, [StreamEvent("A", 0, "event", b"{}", received=int((now - 90) * 1e6))], is_tail=True)
    watched.engine.ingest(page, 0.0)
    watched.tally.note_batch(page)

    assert watched.snapshot.lag_seconds() == pytest.approx(90, abs=5)
    [call] = watched.engine.take(1, 0.0)
    watched.engine.settle(call, done(), 0.0, 0.0)
    assert watched.snapshot.lag_seconds() == 0.0


def test_some_of_many_streams_in_trouble_are_named_and_all_are_counted() -> None:
    watched = Watched("mailer", engine(concurrency=100))
    watched.engine.ingest(batch(50, things(*(f"S{number}E{number}" for number in range(50)))), 0.0)
    for call in watched.engine.take(50, 0.0):
        watched.engine.settle(call, Failure("ValueError", "broken"), 0.0, 0.0)

    assert [each.stream for each in watched.snapshot.longest] == [f"S{number}" for number in range(LONGEST_MAX)]
    assert watched.snapshot.busy["failing"].streams == 50


def test_longest_failing_stream_comes_first_though_it_has_stalled_meanwhile() -> None:
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
