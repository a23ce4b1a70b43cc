import pytest

from penstock.processing.source_watch import Answer, SourceWatch


def watch(
    *, counts: dict[str, int | None], now: float = 10.0, is_wanted: bool = True, fails: bool = False
) -> SourceWatch:
    """Return what has begun at 0 and was told something later."""
    found = SourceWatch()
    found.begin(0.0)
    if fails:
        found.read_failed()
    found.told(Answer(counts, {"0": 100}), now, is_wanted=is_wanted)
    return found


@pytest.mark.parametrize(
    ("ahead", "completed", "gap"),
    [(0, 100, 50), (30, 120, 30), (0, 150, 0), (20, 190, 20), (60, 100, 60)],
)
def test_gap_keeps_the_last_known_head_while_events_are_done(ahead: int, completed: int, gap: int) -> None:
    assert watch(counts={"0": 50}).gap("0", ahead, completed) == gap


def test_gap_is_unknown_where_the_source_does_not_say() -> None:
    assert watch(counts={"0": None}).gap("0", 3, 0) is None
    assert SourceWatch().gap("0", 3, 0) is None


@pytest.mark.parametrize(
    ("given", "unanswered_s"),
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
def test_source_that_is_asked_has_answered_unless_it_cannot_be_read(given: dict, unanswered_s: float) -> None:  # type: ignore[type-arg]
    assert watch(**given).unanswered_s(20.0) == unanswered_s


def test_batch_is_an_answer_and_an_empty_read_is_none() -> None:
    found = watch(counts={"0": 7}, fails=True)
    found.read(12.0, is_answer=False)
    assert found.unanswered_s(20.0) == 20.0
    found.read(15.0, is_answer=True)
    assert found.unanswered_s(20.0) == 5.0


def test_events_that_are_not_read_age_until_their_tranche_makes_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    found, times = SourceWatch(), iter([1.0, 2.0, 3.0])
    monkeypatch.setattr("penstock.processing.source_watch.time.time", lambda: next(times))
    assert found.unread_since("0", 5, 0, 0) is None
    assert found.unread_since("0", 5, 4, 4) is None, "all of them are read"
    assert [found.unread_since("0", 5, gap, 0) for gap in (4, 4, 9)] == [1.0, 1.0, 1.0]
    assert found.unread_since("0", 7, 9, 0) == 2.0, "more was read"
    assert [found.unread_since("0", 7, gap, 0) for gap in (8, 8)] == [3.0, 3.0]
